"""``App.store``: the stores of a process, read from any thread as tests and processors see them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from operator import methodcaller
from typing import Any

import pytest

import streamlet as sl
from streamlet.dsl.processors.record import Record
from streamlet.kafka.placements import PARTITIONERS, place
from streamlet.queries.local import LocalStore
from streamlet.state.query_errors import (
    InvalidStateStoreError,
    InvalidStateStorePartitionError,
    KeyPlaceUnknownError,
    NotUpToBoundError,
    QueryRefusedError,
    StateStoreMigratedError,
    StreamsNotStartedError,
    StreamsRebalancingError,
    UnknownStateStoreError,
)
from streamlet.tasks.served_tasks import MOST_WAITING
from streamlet.types import TaskId, TopicPartition
from tests.unit.queries.served import KEYS, Serving, filled, serving


@pytest.fixture(scope="module")
def every_kind() -> Iterator[Serving]:
    with filled() as made:
        yield made


def _merged(made: Serving, name: str, kind: Any, read: Callable[[Any], Any]) -> list[Any]:
    """The answers of the tasks of the driver, one behind another."""
    stores = (made.driver.store(name, *kind, partition=number) for number in range(3))
    return [entry for store in stores for entry in read(store)]


Order = Callable[[Any], Any]

BY_KEY: tuple[Order, list[tuple[str, str, tuple[Any, ...]]]] = (
    lambda entry: entry[0].encode(),
    [
        ("range", "reverse_range", ()),
        ("range", "reverse_range", ("k2", "k31")),
        ("all", "reverse_all", ()),
        ("prefix_scan", "", ("k1",)),
    ],
)
BY_START: tuple[Order, list[tuple[str, str, tuple[Any, ...]]]] = (
    lambda entry: (entry[0].start, entry[0].key.encode()),
    [
        ("all", "backward_all", ()),
        ("fetch", "backward_fetch", ("k1", "k3", None, None)),
        ("fetch_all", "backward_fetch_all", (1_577_837_030_000, None)),
    ],
)
BY_END: tuple[Order, list[tuple[str, str, tuple[Any, ...]]]] = (
    lambda entry: (entry[0].end, entry[0].key.encode(), entry[0].start),
    [
        ("all", "backward_all", ()),
        ("fetch", "backward_fetch", ("k1", "k3")),
        ("find_sessions", "backward_find_sessions", (1_577_837_030_000, None)),
        ("find_sessions", "backward_find_sessions", ("k1", "k3", None, None)),
    ],
)


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize(
    ("name", "kind", "how"),
    [
        ("counts", (), BY_KEY),
        ("counts", (sl.TimestampedStore,), BY_KEY),
        ("plain", (), BY_KEY),
        ("latest", (), BY_KEY),
        ("timed", (), BY_KEY),
        ("windows", (), BY_START),
        ("windowed", (), BY_START),
        ("sessions", (), BY_END),
        ("key-sessions", (), BY_END),
    ],
)
def test_reads_of_all_tasks_come_in_the_order_of_one(
    every_kind: Serving, name: str, kind: tuple[Any, ...], how: Any, newest: bool
) -> None:
    order, reads = how
    store = every_kind.store(name, *kind, newest=newest, timeout_ms=60_000)
    for there, back, given in reads:
        forward = _merged(every_kind, name, kind, methodcaller(there, *given))
        assert forward
        with _loop(every_kind):
            assert list(getattr(store, there)(*given)) == sorted(forward, key=order)
            if back:
                wanted = sorted(forward, key=order, reverse=True)
                assert list(getattr(store, back)(*given)) == wanted


class _loop:
    """A thread that answers queries of newest state, as a worker's loop does."""

    def __init__(self, made: Serving) -> None:
        self._made, self._over = made, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.is_set():
            self._made.served.answer()
            self._made.served.wait(0.001)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_reads_of_a_key_are_answered_by_its_task(every_kind: Serving) -> None:
    for key in KEYS:
        at = every_kind.driver.tasks
        places = [every_kind.driver.store("counts", partition=one.partition) for one in at]
        (count,) = (found for store in places if (found := store.get(key)) is not None)
        assert every_kind.store("counts").get(key) == count
        timed = every_kind.store("counts", sl.TimestampedStore[str, int]).get(key)
        assert (timed.value, timed.timestamp) == (
            count,
            every_kind.store("counts").timestamp(key),
        )
        versions = list(every_kind.store("versions").get(key, None, None))
        assert versions[-1] == every_kind.store("versions").get(key)
        start, value = next(every_kind.store("windowed").fetch(key, None, None))
        assert every_kind.store("windowed").fetch(key, start) == value
        session, value = next(every_kind.store("sessions").fetch(key))
        assert every_kind.store("sessions").get(session) == value
        assert every_kind.store("sessions").fetch_session(*session[:3]) == value
    assert every_kind.store("counts").get("never") is None
    assert every_kind.store("counts").approximate_num_entries() == len(KEYS)


def test_a_query_writes_nothing(every_kind: Serving) -> None:
    for name, put in {
        "plain": ("k", 1),
        "latest": ("k", 1),
        "timed": ("k", 1, 5),
        "windowed": ("k", 1, 5),
        "versions": ("k", 1, 5),
        "counts": ("k", 1),
    }.items():
        with pytest.raises(sl.StreamletError, match="can only be read"):
            every_kind.store(name).put(*put)


def test_a_store_is_of_the_kind_that_is_asked_for(every_kind: Serving) -> None:
    with pytest.raises(TypeError, match=r"is a Queried|is a WindowStore, not a SessionStore"):
        every_kind.store("windows", sl.SessionStore[str, int])
    assert isinstance(every_kind.store("windows", sl.WindowStore[str, int]), sl.WindowStore)


def _counting(counts: dict[str, int] | None = None) -> Serving:
    app = sl.App("words")
    app.stream("in", key=str, value=int).group_by_key().count(store="counts")
    return serving(app, counts or {"in": 2})


def test_what_is_not_here_raises_and_is_never_empty() -> None:
    made = _counting()
    made.driver.pipe_inputs("in", [(key, 1) for key in KEYS])
    part = made.driver.tasks[0].subtopology
    made.serve(TaskId(part, 0))
    store = made.store("counts")
    found = {}
    for key in KEYS:
        try:
            found[key] = store.get(key)
        except StateStoreMigratedError:
            found[key] = 0
    assert set(found.values()) == {0, 1}
    with pytest.raises(StateStoreMigratedError, match="partition 1"):
        store.all()
    here = dict(made.store("counts", local=True).all())
    assert here == {key: 1 for key, count in found.items() if count}
    with pytest.raises(InvalidStateStorePartitionError, match="partitions 0 to 1, not 2"):
        made.store("counts", partition=2).all()
    with pytest.raises(UnknownStateStoreError, match="no store 'count'; there are: counts"):
        made.store("count")
    made.served.state = "REBALANCING"
    with pytest.raises(StreamsRebalancingError, match="is REBALANCING"):
        made.store("counts", partition=1).get("k1")
    made.served.end()
    with pytest.raises(StreamsNotStartedError, match="does not run in this process"):
        store.get("k1")


def test_a_worker_that_the_group_does_not_hear_of_answers_nothing() -> None:
    made = _counting()
    made.driver.pipe_input("in", "k", 1)
    made.serve()
    assert made.store("counts").get("k") == 1
    made.owns = False
    with pytest.raises(StateStoreMigratedError, match="others may have"):
        made.store("counts").get("k")


def test_a_scan_ends_by_an_error_where_its_task_goes() -> None:
    made = _counting({"in": 1})
    made.driver.pipe_inputs("in", [(str(number), 1) for number in range(2_500)])
    made.serve()
    scan = made.store("counts").all()
    read = [next(scan) for _ in range(900)]
    made.served.remove(made.driver.tasks[0])
    with pytest.raises(StateStoreMigratedError, match="was closed while it was read"):
        read += scan
    assert len(read) == 900 or len(read) % 1_000 == 0


def test_a_scan_is_of_one_commit() -> None:
    made = _counting({"in": 1})
    made.driver.pipe_inputs("in", [(str(number), 1) for number in range(2_500)])
    made.serve()
    scan = made.store("counts").all()
    first = next(scan)
    made.driver.pipe_inputs("in", [(str(number), 1) for number in range(3_000)])
    assert {value for _, value in (first, *scan)} == {1}
    assert made.store("counts").approximate_num_entries() == 3_000


@pytest.mark.parametrize("partitioner", ["consistent_random", "fnv1a_random"])
def test_keys_are_found_by_the_partitioner_by_which_they_lie(partitioner: str) -> None:
    """As Python's client places them, whose default is not Java's."""
    made = _counting({"in": 3})
    for key in KEYS:
        made.driver.pipe_input("in", key, 1, partition=place(partitioner)(key.encode(), 3))
    made.serve()
    assert [made.store("counts").get(key) for key in KEYS] == [1] * len(KEYS)


def test_a_key_is_not_taken_for_absent_while_too_few_show_where_keys_lie() -> None:
    made = _counting({"in": 3})
    made.serve()
    unsure = [key for key in KEYS if len({place(n)(key.encode(), 3) for n in PARTITIONERS}) > 1]
    with pytest.raises(KeyPlaceUnknownError, match="name the partition"):
        made.local("counts").partition_of(unsure[0])
    assert made.store("counts").get(unsure[0]) is None  # all were asked that may have it
    for key in KEYS:
        where = place("consistent_random")(key.encode(), 3)
        made.driver.pipe_input("in", key, 1, partition=where)
    assert [made.store("counts").get(key) for key in KEYS] == [1] * len(KEYS)


def test_keys_that_lie_by_no_partitioner_are_read_by_partition() -> None:
    made = _counting({"in": 3})
    for number, key in enumerate(KEYS):
        made.driver.pipe_input("in", key, 1, partition=number % 3)
    made.serve()
    with pytest.raises(InvalidStateStoreError, match="name the partition"):
        made.store("counts").get(KEYS[0])
    assert made.store("counts", partition=1).get(KEYS[1]) == 1
    assert made.store("counts").approximate_num_entries() == len(KEYS)


def test_keys_that_lie_elsewhere_are_not_looked_for_by_the_partitioner() -> None:
    made = _counting()
    task: Any = made.task(made.driver.tasks[0])
    task.misplaced = "in"
    made.served.add(task)
    part = task.task.partition
    key = next(key for key in KEYS if made.driver.pipe_input("in", key, 1, partition=part) is None)
    other = [one for one in KEYS if _answers(made, one)]
    assert other == []
    assert made.store("counts", partition=part).get(key) == 1


def _answers(made: Serving, key: str) -> bool:
    try:
        made.store("counts").get(key)
    except InvalidStateStoreError:
        return False
    return True


def test_an_answer_has_its_position_and_a_bound_waits_for_it() -> None:
    made = _counting({"in": 1})
    made.serve()
    app, tp = made.app, TopicPartition("in", 0)
    app._served = made.served
    made.driver.pipe_input("in", "k", 1)
    made.driver._parts[0].state.inputs = None

    def asked(offset: int, timeout: float) -> sl.StateQueryResult[Any]:
        bound = sl.PositionBound.at(sl.Position({tp: offset}))
        request = sl.StateQueryRequest("counts", sl.KeyQuery("k"), bound, timeout=timeout)
        return app.query(request)

    assert asked(0, 0).only_partition_result.result == 1
    with pytest.raises(NotUpToBoundError, match="in-0 at 0 of 2"):
        asked(2, 0)
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(asked(2, 60)))
    waiting.start()
    _commit(made, {tp: 2})
    waiting.join(60)
    assert found[0].position == sl.Position({tp: 2})
    merged = found[0].position.merged(sl.Position({tp: 1}))
    assert sl.Position.from_json(merged.to_json()) == merged


#: Each kind of query with its store, and the read of the store that gives the same.
QUERIES: list[tuple[str, Any, tuple[Any, ...]]] = [
    ("plain", sl.KeyQuery("k1"), ("get", "k1")),
    ("timed", sl.TimestampedKeyQuery("k1"), ("get", "k1")),
    ("plain", sl.RangeQuery("k2", "k31"), ("range", "k2", "k31")),
    ("plain", sl.RangeQuery(None, "k31", descending=True), ("reverse_range", None, "k31")),
    ("timed", sl.TimestampedRangeQuery(), ("all",)),
    ("timed", sl.TimestampedRangeQuery("k2", descending=True), ("reverse_range", "k2", None)),
    ("windowed", sl.WindowKeyQuery("k1"), ("fetch", "k1", None, None)),
    ("windowed", sl.WindowRangeQuery(1_577_837_030_000), ("fetch_all", 1_577_837_030_000, None)),
    ("sessions", sl.SessionKeyQuery("k1"), ("fetch", "k1")),
    ("versions", sl.VersionedKeyQuery("k1"), ("get", "k1")),
    ("versions", sl.VersionedKeyQuery("k1", 1_577_836_990_000), ("get", "k1", 1_577_836_990_000)),
    ("versions", sl.MultiVersionedKeyQuery("k1"), ("get", "k1", None, None)),
    ("versions", sl.MultiVersionedKeyQuery("k1", descending=True), ("get", "k1", None, None)),
]


def test_each_kind_of_query_gives_what_the_store_of_each_partition_gives(
    every_kind: Serving,
) -> None:
    every_kind.app._served = every_kind.served
    for store, query, read in QUERIES:
        answer = every_kind.app.query(sl.StateQueryRequest(store, query, timeout=60))
        assert len(answer.partition_results) == (3 if query.partition_key is None else 1)
        for number, one in answer.partition_results.items():
            how: dict[str, Any] = {"partition": number, "timeout_ms": 60_000}
            wanted = methodcaller(*read)(every_kind.store(store, query.kind, **how))
            found = one.result
            if isinstance(found, Iterator):
                found, wanted = [*found], [*wanted]
                assert found
            if isinstance(query, sl.MultiVersionedKeyQuery) and query.descending:
                wanted = wanted[::-1]
            assert found == wanted, (store, query)
            assert found is not None
            assert one.position.offsets


def _commit(made: Serving, inputs: dict[TopicPartition, int]) -> None:
    state = made.driver._parts[0].state
    state.write(state.drain(), state.state, {}, inputs=inputs)


def test_newest_reads_wait_for_the_loop_and_so_many_at_most() -> None:
    made = _counting({"in": 1})
    made.driver.pipe_input("in", "k", 1)
    made.serve()
    with pytest.raises(NotUpToBoundError, match="did not come to a query"):
        made.store("counts", newest=True).get("k")
    for _ in range(MOST_WAITING - 1):
        made.served.ask(lambda: None)
    with pytest.raises(QueryRefusedError, match="wait already"):
        made.store("counts", newest=True).get("k")


def test_keys_that_a_function_or_a_processor_places_may_be_in_any_task() -> None:
    """A member without tasks has no rows that show it."""
    app = sl.App("spread")
    last = app.stream("in", key=str, value=int).repartition(
        name="last", partitioner=lambda key, value, partitions: partitions - 1
    )
    last.group_by_key().count(store="counts")
    by_key = app.stream("in2", key=str, value=int).repartition(name="by")
    by_key.group_by_key().count(store="sums")
    by_key.process(_Plain, stores=[sl.key_value_store("plain", key=str, value=int)])
    made = serving(app, {"in": 3, "in2": 3})
    stores = {
        name: LocalStore(made.served, app.topology(), name) for name in ("counts", "sums", "plain")
    }
    certain = {name: store.places("k1").certain for name, store in stores.items()}
    assert certain == {"counts": False, "sums": True, "plain": False}
    with pytest.raises(KeyPlaceUnknownError):
        stores["counts"].partition_of("k1")
    made.driver.close()


class _Plain(sl.Processor[str, int, str, int]):
    def process(self, record: Record[str, int]) -> None: ...
