"""The administrative requests over confluent-kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import cache, partial
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as RawPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
)
from confluent_kafka.admin import NewTopic as RawTopic  # type: ignore[attr-defined]

from streamlet.clock import Clock, SystemClock
from streamlet.errors import BrokerError, DeletionDisabledError, MissingTopicError, TimedOutError
from streamlet.kafka.admin_errors import AdminErrors
from streamlet.kafka.broker_loss import BrokerLossDetector
from streamlet.kafka.codes import NO_ANSWER, NO_TOPIC, NOT_NOW, opened
from streamlet.kafka.farewell import HeldClient
from streamlet.kafka.listener import looking
from streamlet.kafka.log import quiet
from streamlet.kafka.metadata import definition, settings_in, topics_in, without_leaders
from streamlet.kafka.oidc import no_token
from streamlet.kafka.ports import NewTopic, TopicInfo
from streamlet.kafka.topic_changes import RefusedDeletions, alterations
from streamlet.retries import Retries
from streamlet.types import TopicPartition

T = TypeVar("T")
FIRST_MS = 1_000  # the wait for the first client; a later one may have brokers where it has none
#: What a request is about, each with the answer to come.
Answers: TypeAlias = dict[T, Future[Any]]


class KafkaAdmin:
    """An ``Admin``. Every request is bounded by ``timeout_ms``.

    ``before_creating`` is called before topics are made, and may raise to have none made.
    ``read_committed`` is for ``readable_ends``.

    Raises:
        BrokerError: the broker cannot be reached or refuses; the message bears its address.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        config: Mapping[str, Any] | None = None,
        *,
        timeout_ms: int = 15_000,
        clock: Clock | None = None,
        before_creating: Callable[[], None] = lambda: None,
        read_committed: bool = False,
    ) -> None:
        self._before_creating, self._read_committed = before_creating, read_committed
        self._servers, self._clock = bootstrap_servers, clock or SystemClock()
        self._timeout, self._timeout_ms = timeout_ms / 1000, timeout_ms
        self._tries = partial(Retries, FIRST_MS, timeout_ms, clock=self._clock, limit_ms=timeout_ms)
        own = {"bootstrap.servers": bootstrap_servers, "allow.auto.create.topics": False}
        self._config = quiet({**own, **(config or {})}, "streamlet-admin")
        self._look = looking(bootstrap_servers, self._config)
        self._refused_deletions = RefusedDeletions()
        self._held: HeldClient[AdminClient] = HeldClient(self)
        self._open()

    def _open(self) -> None:
        self._knows_brokers, self._loss = False, BrokerLossDetector()
        self._held.take(opened(AdminClient, "admin", {**self._config, "error_cb": self._loss}))
        # No reference to us, so that the client ends, with its connections, when we are dropped.
        refusal = partial(self._loss.refused, self._held)
        looks = self._look, self._loss.broken, partial(no_token, self._config, self._clock)
        self._errors = AdminErrors(self._servers, self._timeout_ms, refusal, *looks)

    @property
    def _client(self) -> AdminClient:
        """The client for the next request: another one if it lost its brokers since the last."""
        self._held.client.poll(0)
        if self._loss:
            self._open()
        return self._held.client

    def topics(self) -> dict[str, TopicInfo]:
        """All topics by name, without ids (see ``topic_ids``)."""
        return {
            name: TopicInfo(name, len(topic.partitions), internal=name.startswith("__"))
            for name, topic in sorted(self._metadata().topics.items())
        }

    def topic_ids(self, names: Sequence[str]) -> dict[str, str]:
        """The id of each topic that exists; a topic created again has another."""
        return {name: one.topic_id for name, one in self.described(names).items()}

    def described(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """The topics of these that exist, with their ids."""
        if not names:
            return {}
        wanted = TopicCollection(list(names))
        futures = self._asked(lambda it: it.describe_topics(wanted, request_timeout=self._timeout))
        return topics_in(futures, self._errors)

    def topic_config(self, name: str) -> dict[str, str]:
        """All settings of a topic that exists, defaults included; a broker may not know it yet."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        found = self._described([resource])
        try:
            return {key: str(entry.value) for key, entry in found[resource].result().items()}
        except KafkaException as error:
            raise self._errors.settings(name, error, listed=name in self.topics()) from error

    def broker_setting(self, name: str) -> str | None:
        """A setting of a broker; None where the user may not see it."""
        broker = ConfigResource(ConfigResource.Type.BROKER, str(min(self._metadata().brokers)))
        try:
            found = self._described([broker])[broker].result().get(name)
        except (KafkaException, BrokerError):
            return None
        return None if found is None else str(found.value)

    def alter_topics(self, settings: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """Set settings of topics; returns the reasons of those that were refused."""
        changes = alterations(settings)
        if not changes:
            return {}
        refused, bound = {}, {"request_timeout": self._timeout}
        answers = self._asked(lambda it: it.incremental_alter_configs(changes, **bound))
        for resource, future in answers.items():
            try:
                future.result()
            except KafkaException as error:
                failed = self._errors.settings(resource.name, error, "ALTER_CONFIGS")
                if failed.passing:
                    raise failed from error
                refused[resource.name] = str(failed)
        return refused

    def grow_topics(self, counts: Mapping[str, int]) -> None:
        """Give topics so many partitions, and wait until each can be written to.

        One that has as many by now stays as it is.
        """
        if not counts:
            return
        new = [NewPartitions(name, count) for name, count in counts.items()]
        answers = self._asked(lambda it: it.create_partitions(new, request_timeout=self._timeout))
        self._check(answers, "partitions of topic", "ALTER", KafkaError.INVALID_PARTITIONS)
        self._await_writable(counts)

    def delete_retentions(self, names: Sequence[str]) -> dict[str, int]:
        """The time each of these topics keeps deletions, ms, if it is compacted."""
        compacted = {
            name: own
            for name, own in self.topic_settings(names).items()
            if "compact" in own["cleanup.policy"]
        }
        return {name: int(own["delete.retention.ms"]) for name, own in compacted.items()}

    def topic_settings(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """All settings of each of these topics that exists and whose settings we may see."""
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        return settings_in(self._described(resources), self._errors) if resources else {}

    def definitions(self, names: Sequence[str]) -> dict[str, NewTopic]:
        """The definitions that would create each of these topics again, own settings included."""
        found = self._metadata().topics
        resources = {
            ConfigResource(ConfigResource.Type.TOPIC, name): found[name]
            for name in names
            if name in found and found[name].partitions
        }
        if not resources:
            return {}
        settings = self._described(resources)
        made = {}
        for resource, topic in resources.items():
            name = resource.name
            try:
                entries = settings[resource].result().values()
            except KafkaException as error:
                raise self._errors.settings(name, error) from error
            made[name] = definition(name, topic, entries)
        return made

    def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create what is missing and wait until every partition can be written to.

        A broker announces that it leads a partition some time before it does.
        """
        if not topics:
            return
        self._before_creating()
        raw = [RawTopic(t.name, t.partitions, t.replication, config=dict(t.config)) for t in topics]
        answers = self._asked(lambda it: it.create_topics(raw, request_timeout=self._timeout))
        self._check(answers, "creating topic", "CREATE", KafkaError.TOPIC_ALREADY_EXISTS)
        self._await_writable(dict.fromkeys((t.name for t in topics), 1))

    def _check(self, answers: Answers[str], what: str, operation: str, fine: int) -> None:
        """Raise the first error with another code than ``fine``."""
        for name, future in answers.items():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != fine:
                    raise self._errors.of_topic(what, name, error, operation) from error

    def _await_writable(self, least: Mapping[str, int]) -> None:
        """Wait until all partitions of topics that have so many at least can be written to."""
        counts = self._await_leaders(least)
        made = [TopicPartition(t, p) for t, count in counts.items() for p in range(count)]
        self._offsets(made, OffsetSpec.latest(), NOT_NOW | NO_TOPIC)  # type: ignore[no-untyped-call]

    def _await_leaders(self, least: Mapping[str, int]) -> dict[str, int]:
        """Wait until each has so many partitions at least, all with leaders; how many it has."""
        deadline = self._clock.now_ms() + self._timeout_ms
        while True:
            found = self._metadata().topics
            missing = without_leaders(found, least)
            if not missing:
                return {name: len(found[name].partitions) for name in least}
            if self._clock.now_ms() > deadline:
                raise TimedOutError(f"topics without a leader after creation: {missing}")
            self._client.poll(0.02)

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete; unknown names are ignored."""
        if not names:
            return
        # Of one client only: a request that another overtook would delete what was created again.
        gone, bound = list(names), self._timeout
        futures, _ = self._asked_once(lambda it: it.delete_topics(gone, request_timeout=bound))
        for name, future in futures.items():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() == KafkaError.TOPIC_DELETION_DISABLED:
                    raise DeletionDisabledError(
                        f"topic {name} cannot be deleted: delete.topic.enable=false on the brokers"
                    ) from error
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._errors.of_topic("deleting topic", name, error, "DELETE") from error

    def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """First offset of each partition."""
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Offset behind the last record of each partition (read_uncommitted)."""
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def readable_ends(
        self, partitions: Sequence[TopicPartition], *, read_committed: bool | None = None
    ) -> dict[TopicPartition, int]:
        """Offset behind the last record of each partition that the application's consumers get."""
        committed = self._read_committed if read_committed is None else read_committed
        return self._offsets(partitions, OffsetSpec.latest(), committed=committed)  # type: ignore[no-untyped-call]

    def offsets_at(
        self, partitions: Sequence[TopicPartition], at_ms: int
    ) -> dict[TopicPartition, int]:
        """Offset of the first record of each partition that is not older; the end if all are."""
        found = self._offsets(partitions, OffsetSpec.for_timestamp(at_ms))
        older = [tp for tp, offset in found.items() if offset < 0]
        return {**found, **(self.end_offsets(older) if older else {})}

    def _offsets(
        self,
        partitions: Sequence[TopicPartition],
        spec: OffsetSpec,
        passing: frozenset[int] = NOT_NOW,
        committed: bool = False,
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        if not self._knows_brokers:  # asked for offsets first, it may look for none for seconds
            self.topics()
            self._knows_brokers = True
        tries = self._tries()
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        while len(found) < len(set(partitions)):
            left = [tp for tp in partitions if tp not in found]
            began_ms, wait_s = self._clock.now_ms(), tries.next_ms() / 1000
            stale = self._offsets_once(left, spec, found, wait_s, passing, isolation)
            if stale is None:
                continue
            if tries.over:
                raise stale
            silent = self._clock.now_ms() - began_ms >= wait_s * 1000  # it may never answer
            if silent or isinstance(stale, MissingTopicError):
                self._open()
            # The client asks by what it remembers of leaders, and does not look again by itself.
            self.topics()
            self._client.poll(0.02)
        return found

    def _offsets_once(
        self,
        partitions: Sequence[TopicPartition],
        spec: OffsetSpec,
        found: dict[TopicPartition, int],
        wait_s: float,
        passing: frozenset[int],
        isolation: IsolationLevel,
    ) -> BrokerError | None:
        """Ask once; an error that newer metadata mends is returned, any other is raised.

        The client may forget a request whose leaders it did not know, whatever its time-out: what
        is not answered in time is to be asked again, of another. Where the connection broke it
        answers, of librdkafka 2.16 at least, with no error and no offset. And it may remember for
        good that a topic is missing which was asked for between its deletion and its creation.
        """
        wanted = {RawPartition(tp.topic, tp.partition): spec for tp in partitions}
        options = {"isolation_level": isolation, "request_timeout": self._timeout}
        futures, missing = self._asked_once(lambda it: it.list_offsets(wanted, **options), wait_s)
        stale: BrokerError | None = None
        listed = cache(lambda: self._metadata().topics.keys())
        for raw, future in futures.items():
            if future in missing:
                stale = self._errors.silent()
                continue
            try:
                offset = int(future.result().offset)
            except KafkaException as error:
                failed, code = self._errors.offsets(raw, error), error.args[0].code()
                if code in NO_TOPIC:
                    failed = MissingTopicError(str(failed), [raw.topic])
                if code not in passing and not (code in NO_TOPIC and raw.topic in listed()):
                    raise failed from error
                stale = failed
                continue
            if offset == OFFSET_INVALID:  # the connection broke: no error, no offset (2.16)
                stale = self._errors.silent()
            else:
                found[TopicPartition(raw.topic, raw.partition)] = offset
        return stale

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Let the broker drop records below these offsets; answers are not waited for."""
        if before:
            asked = [RawPartition(tp.topic, tp.partition, at) for tp, at in before.items()]
            self._refused_deletions.watch(self._client.delete_records(asked))

    def close(self) -> None:
        """Do nothing: the client has no connection state to close."""

    def _metadata(self) -> ClusterMetadata:
        """Topics and brokers as the client knows them."""
        tries = self._tries()
        while True:
            try:
                found: ClusterMetadata = self._client.list_topics(timeout=tries.next_ms() / 1000)
            except KafkaException as error:
                code = error.args[0].code()
                if tries.over or code not in NO_ANSWER or self._errors.hopeless() is not None:
                    raise self._errors.unreachable(error) from error
                self._open()
                self._held.client.poll(0.02)  # it may have failed at once
            else:
                return found

    def _described(self, resources: Iterable[ConfigResource]) -> Answers[ConfigResource]:
        wanted = list(resources)
        return self._asked(lambda it: it.describe_configs(wanted, request_timeout=self._timeout))

    def _asked(self, request: Callable[[AdminClient], Answers[T]]) -> Answers[T]:
        """The answers, all there: of another client than was asked first where that gave none.

        What was carried out all the same is answered with an error that says so.
        """
        tries = self._tries()
        while True:
            answers, missing = self._asked_once(request, tries.next_ms() / 1000)
            if not missing:
                return answers
            if tries.over or self._errors.hopeless() is not None:
                raise self._errors.silent()
            self._open()

    def _asked_once(
        self, request: Callable[[AdminClient], Answers[T]], wait_s: float | None = None
    ) -> tuple[Answers[T], set[Future[Any]]]:
        """The answers, and those that did not come in time.

        The client is held meanwhile: another thread may replace it, and its requests fail then. No
        frame that handles errors holds it: tracebacks make cycles, and the collector may run on a
        thread of the client's, with a late answer. To free it there ends the process.
        """
        client = self._client
        answers = request(client)
        return answers, wait(answers.values(), timeout=wait_s).not_done
