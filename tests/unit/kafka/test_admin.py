"""What the admin client is asked, and in which order."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from streamlet.errors import (
    BrokerError,
    BrokerTooOldError,
    MissingTopicError,
    UnreachableError,
)
from streamlet.kafka import admin as module
from streamlet.kafka.admin import KafkaAdmin
from streamlet.kafka.codes import NOT_NOW
from streamlet.kafka.ports import NewTopic
from streamlet.types import TopicPartition

PARTITION = TopicPartition("in", 0)


class Asked:
    """Stands for librdkafka's client: every topic ends at 7."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.calls: list[str] = []
        self.forgets = 0  # so many requests for offsets
        self.breaks = 0  # in so many of them, behind those
        self.refusals: list[int] = []  # the errors of the next of them

    def poll(self, timeout: float) -> None:
        """Nothing to serve."""

    def list_topics(self, timeout: float) -> Any:
        self.calls.append("topics")
        return SimpleNamespace(topics={})

    def list_offsets(self, wanted: Mapping[Any, Any], **options: Any) -> dict[Any, Future[Any]]:
        self.calls.append("offsets")
        answers: dict[Any, Future[Any]] = {partition: Future() for partition in wanted}
        if self.forgets:
            self.forgets -= 1
            return answers
        if self.refusals:
            error = KafkaException(KafkaError(self.refusals.pop()))
            for answer in answers.values():
                answer.set_exception(error)
            return answers
        broken, self.breaks = self.breaks > 0, max(0, self.breaks - 1)
        for answer in answers.values():
            answer.set_result(SimpleNamespace(offset=OFFSET_INVALID if broken else 7))
        return answers


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> KafkaAdmin:
    monkeypatch.setattr(module, "AdminClient", Asked)
    monkeypatch.setattr(module, "FIRST_MS", 1)
    return KafkaAdmin("localhost:1")


def asked(admin: KafkaAdmin) -> Asked:
    return cast(Asked, admin._client)


def test_the_first_request_for_offsets_looks_for_brokers_before(admin: KafkaAdmin) -> None:
    """A client that is asked for offsets first of all may wait for seconds, even minutes."""
    assert admin.end_offsets([PARTITION]) == {PARTITION: 7}
    assert admin.start_offsets([PARTITION]) == {PARTITION: 7}
    assert asked(admin).calls == ["topics", "offsets", "offsets"]


def test_a_request_for_offsets_that_is_forgotten_is_made_again_by_another(
    admin: KafkaAdmin,
) -> None:
    """One that tells of topics may answer no such request for as long as it lives."""
    forgetful = asked(admin)
    forgetful.forgets = 1_000
    assert admin.end_offsets([PARTITION]) == {PARTITION: 7}
    assert forgetful.calls == ["topics", "offsets"]
    assert asked(admin).calls == ["topics", "offsets"]


def test_no_offset_at_all_is_no_answer(admin: KafkaAdmin) -> None:
    """That is what librdkafka makes of a connection that breaks."""
    asked(admin).breaks = 2
    assert admin.end_offsets([PARTITION]) == {PARTITION: 7}


class Remembering(Asked):
    """The first client knows of no topic for as long as it lives; those after it know one."""

    made = 0

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        Remembering.made += 1
        self.unknowing = Remembering.made == 1

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(topics={"in": SimpleNamespace(partitions=[0])})

    def list_offsets(self, wanted: Mapping[Any, Any], **options: Any) -> dict[Any, Future[Any]]:
        if not self.unknowing:
            return super().list_offsets(wanted, **options)
        unknown = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        answers: dict[Any, Future[Any]] = {partition: Future() for partition in wanted}
        for answer in answers.values():
            answer.set_exception(unknown)
        return answers


def test_a_client_that_remembers_a_topic_as_missing_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It lists a topic that was made again, and says of its offsets that there is none."""
    monkeypatch.setattr(module, "AdminClient", Remembering)
    monkeypatch.setattr(Remembering, "made", 0)
    admin = KafkaAdmin("localhost:1")
    with pytest.raises(MissingTopicError) as missing:
        admin.end_offsets([TopicPartition("gone", 0)])
    assert missing.value.topics == {"gone"}
    assert admin.end_offsets([PARTITION]) == {PARTITION: 7}


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Refusing(Remembering):
    """Does not delete what it does not know."""

    def delete_topics(self, names: Sequence[str], **options: Any) -> dict[Any, Future[Any]]:
        return self.list_offsets(dict.fromkeys(names))


@pytest.mark.parametrize("ask", ["offsets", "delete"])
def test_a_client_that_was_replaced_is_not_left_to_the_collector(
    monkeypatch: pytest.MonkeyPatch, ask: str
) -> None:
    """It runs on any thread, also on one of the client's, where librdkafka ends the process."""
    monkeypatch.setattr(module, "AdminClient", Refusing)
    monkeypatch.setattr(Remembering, "made", 0)
    admin = KafkaAdmin("localhost:1", timeout_ms=1_000)
    first = weakref.ref(asked(admin))
    with without_collector():
        if ask == "offsets":
            assert admin.end_offsets([PARTITION]) == {PARTITION: 7}
        else:
            admin.delete_topics(["in"])
            admin._open()
        assert first() is None


def test_brokers_that_elect_a_leader_or_are_not_ready_yet_are_asked_again(
    admin: KafkaAdmin,
) -> None:
    asked(admin).refusals = sorted(NOT_NOW)
    assert admin.end_offsets([PARTITION]) == {PARTITION: 7}
    assert admin.readable_ends([PARTITION]) == {PARTITION: 7}


class Starting(Asked):
    """Lists a topic, of which the broker that is asked for its settings does not know yet."""

    code = KafkaError.UNKNOWN_TOPIC_OR_PART

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(topics={"in": SimpleNamespace(partitions=[0])})

    def describe_configs(self, wanted: Sequence[Any], **options: Any) -> dict[Any, Future[Any]]:
        answers: dict[Any, Future[Any]] = {one: Future() for one in wanted}
        for answer in answers.values():
            answer.set_exception(KafkaException(KafkaError(self.code)))
        return answers


def test_a_topic_that_one_broker_does_not_know_yet_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An instance that starts while brokers do would end for good otherwise."""
    monkeypatch.setattr(module, "AdminClient", Starting)
    admin = KafkaAdmin("localhost:1")
    with pytest.raises(BrokerError, match="settings of topic in: ") as listed:
        admin.topic_config("in")
    assert listed.value.passing
    with pytest.raises(BrokerError, match="settings of topic gone: ") as missing:
        admin.topic_config("gone")
    assert not missing.value.passing


def test_a_broker_that_the_client_gives_up_amid_a_request_has_not_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else an instance that starts while brokers are replaced ends for good."""
    monkeypatch.setattr(module, "AdminClient", Starting)
    monkeypatch.setattr(Starting, "code", KafkaError._DESTROY_BROKER)
    with pytest.raises(BrokerError, match="no answer from localhost:1") as given_up:
        KafkaAdmin("localhost:1").topic_config("in")
    assert given_up.value.passing


class Mortal(Asked):
    """Answers only after another thread has had another take its place, if it is still held."""

    replaced_by: Callable[[], None]

    def list_offsets(self, wanted: Mapping[Any, Any], **options: Any) -> dict[Any, Future[Any]]:
        answers: dict[Any, Future[Any]] = {partition: Future() for partition in wanted}
        held, replace = weakref.ref(self), self.replaced_by

        def answer() -> None:
            replace()
            gc.collect()
            for future in answers.values():
                if held() is None:
                    future.set_exception(KafkaException(KafkaError(KafkaError._DESTROY)))
                else:
                    future.set_result(SimpleNamespace(offset=7))

        threading.Thread(target=answer).start()
        return answers


def test_who_waits_for_a_client_that_another_thread_replaces_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AdminClient", Mortal)
    monkeypatch.setattr(module, "FIRST_MS", 60_000)
    admin = KafkaAdmin("localhost:1", timeout_ms=60_000)
    cast(Mortal, asked(admin)).replaced_by = admin._open
    assert admin.end_offsets([PARTITION]) == {PARTITION: 7}


class Deaf(Asked):
    """As librdkafka's client that dropped the last broker it knew; those after it hear again."""

    deaf = 1

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.hears = Deaf.deaf <= 0
        Deaf.deaf -= 1

    def list_topics(self, timeout: float) -> Any:
        if not self.hears:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "no broker"))
        return super().list_topics(timeout)

    def describe_topics(self, topics: Any, **options: Any) -> dict[str, Future[Any]]:
        answer: Future[Any] = Future()
        if self.hears:
            answer.set_result(SimpleNamespace(topic_id="of in", partitions=[0]))
        return {"in": answer}


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (KafkaAdmin.topics, {}),
        (lambda admin: admin.topic_ids(["in"]), {"in": "of in"}),
    ],
)
def test_another_client_is_asked_where_one_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[KafkaAdmin], object],
    answer: dict[str, str],
) -> None:
    """One whose last broker it dropped waits for another for as long as it is let."""
    monkeypatch.setattr(module, "AdminClient", Deaf)
    monkeypatch.setattr(Deaf, "deaf", 3)
    assert ask(KafkaAdmin("localhost:1", timeout_ms=1_000)) == answer
    monkeypatch.setattr(Deaf, "deaf", 1_000_000_000)
    with pytest.raises(UnreachableError, match="no answer from localhost:1 within 20 ms"):
        ask(KafkaAdmin("localhost:1", timeout_ms=20))


class Slow(Asked):
    """Deletes topics, and takes its time."""

    def delete_topics(self, names: Sequence[str], **options: Any) -> dict[str, Future[None]]:
        self.calls.append("delete")
        answers: dict[str, Future[None]] = {name: Future() for name in names}
        for answer in answers.values():
            threading.Timer(0.05, answer.set_result, [None]).start()
        return answers


@pytest.mark.usefixtures("admin")
def test_nobody_else_is_asked_to_delete_what_may_be_made_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AdminClient", Slow)
    admin = KafkaAdmin("localhost:1")
    first = asked(admin)
    admin.delete_topics(["in"])
    assert asked(admin) is first
    assert first.calls == ["delete"]


class Silent(Asked):
    """Answers no request for offsets."""

    def list_offsets(self, wanted: Mapping[Any, Any], **options: Any) -> dict[Any, Future[Any]]:
        return {partition: Future() for partition in wanted}


@pytest.mark.usefixtures("admin")
def test_a_broker_that_never_answers_about_offsets_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AdminClient", Silent)
    admin = KafkaAdmin("localhost:1", timeout_ms=20)
    with pytest.raises(UnreachableError, match="no answer from localhost:1 within 20 ms"):
        admin.end_offsets([PARTITION])


class Restarting(Asked):
    """Makes a topic, and is then away or without a leader for it."""

    def create_topics(self, topics: Sequence[Any], **options: Any) -> dict[str, Future[None]]:
        made: Future[None] = Future()
        made.set_result(None)
        return {"in": made}

    def list_topics(self, timeout: float) -> Any:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "away"))

    def list_offsets(self, wanted: Mapping[Any, Any], **options: Any) -> dict[Any, Future[Any]]:
        answers: dict[Any, Future[Any]] = {partition: Future() for partition in wanted}
        for answer in answers.values():
            answer.set_exception(
                KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "an election"))
            )
        return answers


@pytest.fixture
def restarting(monkeypatch: pytest.MonkeyPatch) -> KafkaAdmin:
    monkeypatch.setattr(module, "AdminClient", Restarting)
    return KafkaAdmin("localhost:1", timeout_ms=0)


def test_a_broker_that_goes_away_while_a_topic_is_made_is_an_error_of_ours(
    restarting: KafkaAdmin,
) -> None:
    """Any other would end threads that go on after ours."""
    with pytest.raises(UnreachableError, match="no answer from localhost:1"):
        restarting.create_topics([NewTopic("in", 1)])


def test_a_partition_without_a_leader_is_a_matter_of_time(
    restarting: KafkaAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarting, "topics", dict)
    monkeypatch.setattr(restarting, "_timeout_ms", -1)
    with pytest.raises(BrokerError, match="offsets of in-0: an election") as met:
        restarting.end_offsets([PARTITION])
    assert met.value.passing


def test_nothing_is_made_on_a_broker_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody wants topics left over by what did not start."""
    monkeypatch.setattr(module, "AdminClient", Asked)

    def refuse() -> None:
        raise BrokerTooOldError("Kafka 2.5 is needed")

    admin = KafkaAdmin("localhost:1", before_creating=refuse)
    admin.create_topics([])
    with pytest.raises(BrokerTooOldError):
        admin.create_topics([NewTopic("in", 1)])
    assert asked(admin).calls == []
