"""``App.run``: a worker in the calling process, against a real broker."""

from __future__ import annotations

import itertools
import logging
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal
from uuid import uuid4

import pytest
from confluent_kafka import Producer

import streamlet as sl
from streamlet.app import App
from streamlet.config import Settings
from streamlet.dsl.stream import KStream
from streamlet.errors import EntryTooLargeError, ListenerError, MissingTopicError, ProcessingError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.processing.policy import UncaughtRule
from streamlet.types import TopicPartition
from tests.integration.commits import assert_all_committed

pytestmark = pytest.mark.integration


def word_count(
    servers: str,
    folder: Path,
    on_word: Callable[[str, str], object] = lambda k, word: None,
    on_count: Callable[[str, int], object] = lambda word, count: None,
    through: Callable[[KStream[str, str]], KStream[str, str]] = lambda words: words,
    uncaught: UncaughtRule | None = None,
    **config: object,
) -> tuple[App, str]:
    """An application over topics of its own, with three lines to read."""
    mark = uuid4().hex[:8]
    lines, counts = f"lines-{mark}", f"counts-{mark}"
    admin = KafkaAdmin(servers)
    admin.create_topics([NewTopic(lines, 2, 1), NewTopic(counts, 2, 1)])
    admin.close()
    producer = Producer({"bootstrap.servers": servers})
    for line in ("a b", "b c", "b"):
        producer.produce(lines, line.encode())
    assert producer.flush(300) == 0
    config["state.dir"] = str(folder)
    app = App(f"words-{mark}", bootstrap_servers=servers, config=config, uncaught_handler=uncaught)
    words = through(app.stream(lines, key=str, value=str).flat_map_values(str.split))
    words.foreach(on_word)
    results = words.group_by(lambda k, word: word).count(store="counts").to_stream()
    results.foreach(on_count)
    results.to(counts)
    return app, lines


def in_batches(words: KStream[str, str]) -> KStream[str, str]:
    """The words, by way of a function of some of them that have waited for each other."""
    return words.map_batches(lambda batch: list(batch.values), value=str, max_wait="20ms")


def test_results_come_back_until_as_many_as_asked_for(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    app, _ = word_count(bootstrap_servers, tmp_path)
    results = app.run(count=5, timeout=300)
    assert sorted((r.key, r.value) for r in results) == [
        ("a", 1),
        ("b", 1),
        ("b", 2),
        ("b", 3),
        ("c", 1),
    ]


def test_a_second_run_goes_on_where_the_first_ended(bootstrap_servers: str, tmp_path: Path) -> None:
    """With batches of words, each in a transaction."""
    exact = {"processing.guarantee": "exactly_once"}
    app, lines = word_count(bootstrap_servers, tmp_path, through=in_batches, **exact)
    app.run(count=5, timeout=300)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(lines, b"b")
    assert producer.flush(300) == 0
    (result,) = app.run(count=1, timeout=300)
    assert (result.key, result.value) == ("b", 4)
    fifth = threading.Event()
    app.listeners.state = lambda new, old: new == "RUNNING" and fifth.set()
    with app.start():
        assert fifth.wait(300)
        assert app.store("counts", sl.KeyValueStore[str, int], timeout=60).get("b") == 4
        assert app.status.state == "RUNNING"
    assert app.status.state == "NOT_RUNNING"


def test_a_worker_that_fails_is_replaced_where_its_handler_says_so(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    """It goes on behind its last commit, in the same run."""
    failures = ["again", "once"]

    def fail(key: str, word: str) -> None:
        if word == "c" and failures:
            raise ConnectionError(failures.pop())

    app, _ = word_count(bootstrap_servers, tmp_path, fail, uncaught="replace_thread")
    counts: dict[str, int] = {}
    patience = itertools.accumulate(itertools.repeat(20))  # a slow machine takes longer to begin
    while counts != {"a": 1, "b": 3, "c": 1}:
        counts |= {r.key: r.value for r in app.run(count=5, timeout=next(patience))}
    assert failures == []
    assert_all_committed(bootstrap_servers, app.name)


def test_a_run_that_returns_nothing_says_what_it_did(
    bootstrap_servers: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app, lines = word_count(bootstrap_servers, tmp_path)
    assert len(app.run(count=5, timeout=300)) == 5
    assert caplog.messages == []
    caplog.set_level(logging.INFO, "streamlet.hosting.run")
    running = threading.Event()
    app.set_state_listener(lambda new, old: new == "RUNNING" and running.set())
    with app:
        thread = threading.Thread(target=app.run, kwargs={"timeout": 400})
        thread.start()
        assert running.wait(300)
    thread.join(300)
    (said,) = (record for record in caplog.records if record.name == "streamlet.hosting.run")
    assert said.levelname == "WARNING"
    assert said.getMessage() == (
        f"{app.name} ran 4 tasks and processed 0 records; there was nothing new in {lines} "
        "(App.reset begins with the old)"
    )


def test_records_go_to_the_topics_that_a_function_names(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    app, lines = word_count(bootstrap_servers, tmp_path)
    outputs = [f"{lines}-{word}" for word in ("a", "b")]
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(topic, 1, 1) for topic in outputs])
    admin.close()
    config = {"state.dir": str(tmp_path)}
    split = App(f"{app.name}-split", bootstrap_servers=bootstrap_servers, config=config)
    stream = split.stream(lines, key=str, value=str)
    stream.to(lambda key, line: f"{lines}-{line[0]}")
    results = split.run(count=3, timeout=300)
    assert sorted((r.topic, r.value) for r in results) == [
        (outputs[0], "a b"),
        (outputs[1], "b"),
        (outputs[1], "b c"),
    ]


def test_close_ends_a_run_from_another_thread(bootstrap_servers: str, tmp_path: Path) -> None:
    seen = threading.Event()
    app, _ = word_count(bootstrap_servers, tmp_path, lambda k, word: seen.set())
    returned: list[object] = []
    with app:
        thread = threading.Thread(target=lambda: returned.append(app.run(timeout=400)))
        thread.start()
        assert seen.wait(300)
    thread.join(300)
    assert len(returned) == 1


def test_a_run_that_is_drained_leaves_and_returns(bootstrap_servers: str, tmp_path: Path) -> None:
    """It is the only one: nobody takes its tasks, so it commits, leaves and is done."""
    counts: list[int] = []
    seen = threading.Event()

    def count_all(word: str, count: int) -> None:
        counts.append(count)
        if len(counts) == 5:
            seen.set()

    app, lines = word_count(bootstrap_servers, tmp_path, on_count=count_all)
    returned: list[object] = []
    thread = threading.Thread(target=lambda: returned.append(app.run(timeout=400)))
    thread.start()
    assert seen.wait(300)
    app.drain(timeout=300)
    thread.join(300)
    assert len(returned) == 1
    # What it had is committed, and it is welcome again: the mark went with it.
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(lines, b"b")
    assert producer.flush(300) == 0
    assert [(r.key, r.value) for r in app.run(count=1, timeout=300)] == [("b", 4)]
    app.drain()  # nothing runs


ENDS: dict[str, tuple[Callable[[App], None], list[tuple[str, ...]]]] = {
    "closed": (lambda app: app.close(), [("a-0",)]),
    "closed for good": (lambda app: app.close(leave=True), []),
    "drained": (lambda app: app.drain(timeout=300), []),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_static_id_stays_in_the_group_unless_it_leaves_for_good(
    bootstrap_servers: str, tmp_path: Path, how: str
) -> None:
    end, left = ENDS[how]
    seen = threading.Event()
    app, _ = word_count(bootstrap_servers, tmp_path, lambda k, word: seen.set())
    config = {"state.dir": str(tmp_path), "group.instance.id": "a"}
    settings = Settings.load({**config, "bootstrap.servers": bootstrap_servers})
    thread = threading.Thread(target=lambda: app.run(timeout=400, settings=settings, name="h1"))
    thread.start()
    try:
        assert seen.wait(300)
        (here,) = app.metadata()
        assert (here.name, here.instance_ids, here.local) == ("h1", ("a-0",), True)
        assert here.members[0].active_tasks
    finally:
        end(app)
        thread.join(300)
    assert [one.instance_ids for one in app.metadata()] == left


@pytest.mark.parametrize("policy", ["skip", "fail"])
def test_what_is_too_large_for_a_changelog_is_not_kept_by_half(
    bootstrap_servers: str, tmp_path: Path, policy: Literal["skip", "fail"]
) -> None:
    """It shows at a commit; the record that did it is found afterwards, nothing else is lost."""
    mark = uuid4().hex[:8]
    source, lengths = f"texts-{mark}", f"lengths-{mark}"
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(source, 1, 1), NewTopic(lengths, 1, 1)])
    admin.close()
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for key, size in (("a", 600_000), ("b", 7), ("a", 600_000), ("a", 5), ("b", 1)):
        producer.produce(source, b"x" * size, key)
    assert producer.flush(300) == 0
    config = {"state.dir": str(tmp_path), "commit.interval.ms": 100}
    app = App(f"texts-{mark}", bootstrap_servers=bootstrap_servers, config=config, on_error=policy)
    texts = app.stream(source, key=str, value=str).group_by_key()
    table = texts.aggregate(str, lambda key, text, so_far: so_far + text, store="texts")
    table.to_stream().map_values(len, value=int).to(lengths)
    if policy == "fail":
        with pytest.raises(EntryTooLargeError, match=r"task 0_0, key b'a': .*message\.max\.bytes"):
            app.run(timeout=300)
        return
    results: dict[str, int] = {}
    patience = itertools.accumulate(itertools.repeat(10))  # a slow machine takes longer to begin
    while results.get("b") != 8 or results.get("a") != 600_005:
        # Put out once more from the last commit on; the first time with what was too large.
        results |= {r.key: r.value for r in app.run(timeout=next(patience))}
        assert results.get("a", 600_000) in (600_000, 600_005, 1_200_000, 1_200_005)
    assert_all_committed(bootstrap_servers, app.name)


def test_a_join_does_not_wait_for_the_marker_behind_a_transaction(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    """The table's topic ends with an offset that is no record."""
    mark = uuid4().hex[:8]
    orders, names, out = f"orders-{mark}", f"names-{mark}", f"out-{mark}"
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(name, 1, 1) for name in (orders, names, out)])
    admin.close()
    settings = {"bootstrap.servers": bootstrap_servers}
    transactional = Producer({**settings, "transactional.id": mark})
    transactional.init_transactions()
    transactional.begin_transaction()
    transactional.produce(names, b"Ann", b"1")
    transactional.commit_transaction()
    plain = Producer(settings)
    plain.produce(orders, b"tea", b"1")
    assert plain.flush(300) == 0

    config = {"state.dir": str(tmp_path)}
    app = App(f"joined-{mark}", bootstrap_servers=bootstrap_servers, config=config)
    table = app.table(names, key=str, value=str)
    stream = app.stream(orders, key=str, value=str)
    stream.join(table, lambda order, name: f"{name}: {order}", value=str).to(out)
    (result,) = app.run(count=1, timeout=300)
    assert result.value == "Ann: tea"


def test_a_table_restored_elsewhere_has_the_rows_it_had(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    """A record that was skipped stays skipped, a row that was deleted stays deleted."""
    mark = uuid4().hex[:8]
    orders, prices, out = f"orders-{mark}", f"prices-{mark}", f"out-{mark}"
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(name, 1, 1) for name in (orders, prices, out)])
    admin.close()
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    price = (5).to_bytes(8)
    rows = [("tea", price), ("tea", b"bad"), ("milk", price), ("milk", None), ("jam", b"bad")]
    for key, value in rows:
        producer.produce(prices, value, key)
    assert producer.flush(300) == 0

    def results(folder: str) -> list[str]:
        for key in ("tea", "milk", "jam"):
            producer.produce(orders, b"1", key)
        assert producer.flush(300) == 0
        config = {"state.dir": str(tmp_path / folder)}
        app = App(
            f"priced-{mark}", bootstrap_servers=bootstrap_servers, config=config, on_error="skip"
        )
        table = app.table(prices, key=str, value=int)
        stream = app.stream(orders, key=str, value=str)
        stream.left_join(table, lambda k, order, row: f"{k} {row}", value=str).to(out)
        return [result.value for result in app.run(count=3, timeout=300)]

    first = results("here")
    assert first == ["tea 5", "milk None", "jam None"]
    assert results("there") == first


def test_a_function_that_exits_ends_the_run_with_an_error_and_not_the_program(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    app, lines = word_count(bootstrap_servers, tmp_path, lambda k, word: sys.exit(0))
    with pytest.raises(ProcessingError, match=rf"SystemExit: 0; .* at {lines}-\d offset 0"):
        app.run(timeout=300)


def test_a_missing_input_topic_is_named(bootstrap_servers: str, tmp_path: Path) -> None:
    app = App("missing", bootstrap_servers=bootstrap_servers, config={"state.dir": str(tmp_path)})
    app.stream("there-is-no-such-topic", key=str, value=str).peek(print)
    with pytest.raises(MissingTopicError, match="there-is-no-such-topic"):
        app.run(timeout=300)


def test_listeners_are_told_of_states_and_of_a_restore(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    class Restores(sl.StateRestoreListener):
        def __init__(self) -> None:
            self.read: dict[str, list[int]] = {}
            self.left = 0

        def on_batch_restored(
            self, partition: TopicPartition, store: str, batch_end: int, restored: int
        ) -> None:
            self.read.setdefault(store, []).append(restored)

        def on_restore_end(self, partition: TopicPartition, store: str, total: int) -> None:
            self.read.setdefault(store, []).append(-total)
            self.left -= 1
            if self.left == 0:
                app.close()

    app, _ = word_count(bootstrap_servers, tmp_path)
    restores, states = Restores(), list[str]()
    app.set_global_state_restore_listener(restores)
    app.set_state_listener(lambda new, old: states.append(new))
    app.run(count=5, timeout=300)
    assert states[0] == "REBALANCING"
    assert "RUNNING" in states
    assert states[-2:] == ["PENDING_SHUTDOWN", "NOT_RUNNING"]
    assert set(restores.read) == {"counts"}
    assert not any(restores.read["counts"])  # there was nothing to read

    shutil.rmtree(tmp_path)  # another host
    restores.read.clear()
    restores.left = 2  # stores: one of each partition
    app.run()
    records = [read for read in restores.read["counts"] if read > 0]
    assert sum(records) == -sum(read for read in restores.read["counts"] if read <= 0) >= 3

    def refuse(new: str, old: str) -> None:
        raise RuntimeError("not listening")

    app.set_state_listener(refuse)
    line = r"tests/integration/test_app_run\.py:\d+ in refuse, `raise .*`"
    with pytest.raises(ListenerError, match=f"{line}: RuntimeError: not listening") as told:
        app.run(timeout=300)
    assert "CREATED -> REBALANCING" in str(told.value)
