"""Windows under load and faults: each is what its records make of it, on disk and in the output."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from streamlet.serdes import Serde, serde
from streamlet.serdes.windowed import Windowed, session_windowed, time_windowed
from streamlet.state.task_state import TaskState
from streamlet.testing import KafkaBroker
from streamlet.types import StateNumber, TaskId
from tests.integration.chaos.faults import Faults
from tests.integration.chaos.states import copied
from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load, Record, read_all
from tests.integration.chaos.topologies import BEAT_S, FINALS_GRACE_MS, SESSION_GAP_MS

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

#: How far behind the others some records are.
OLD_MS = 10_000

Windows = dict[Windowed[str], int]

FAULTS = (
    Faults.kill_worker,
    Faults.add_host,
    Faults.lose_host,
    Faults.kill_host,
    Faults.stop_host,
)


def test_windows_are_exact_whatever_fails(
    make_cluster: Callable[..., Cluster], kafka_broker: KafkaBroker, seed: int, rounds: int
) -> None:
    """Also on a fresh host that restores all of it. Six rounds make each fault once."""
    cluster = make_cluster("windowed")
    dice = random.Random(seed)
    faults = Faults(cluster, kafka_broker, dice)
    cluster.await_settled()
    with Load(
        cluster.servers, cluster.topic("in"), rate=1_000, seed=seed, old_ms=OLD_MS, beat_s=BEAT_S
    ) as load:
        for _ in range(max(1, rounds // 6)):
            for fault in dice.sample(FAULTS, len(FAULTS)):
                faults.make(fault)
        load.finish()
    cluster.await_settled()
    assert [one.stop() for one in faults.instances] == [0] * len(faults.instances), cluster.logs()
    records = read_all(cluster.servers, cluster.topic("in"), range(cluster.partition_count))
    late = late_of(records)
    in_time = seconds_of(record for record in records if record not in late)
    closed = closed_of(in_time, records)
    wanted = {
        "seconds": seconds_of(records),
        **dict.fromkeys(("finals", "counted"), in_time),
        "sessions": sessions_of(records),
        "held": {window: count for window, count in in_time.items() if window not in closed},
    }
    assert len(wanted["sessions"]) > len({window.key for window in wanted["sessions"]})
    assert windows_on_disk(cluster, faults.instances) == wanted

    fresh = cluster.instance("fresh").start()
    wait_for(
        lambda: all(owner.startswith("fresh-") for owner in cluster.owners().values()),
        lambda: f"it has all tasks\n{fresh.log()}",
    )
    assert fresh.stop() == 0, fresh.log()
    assert windows_on_disk(cluster, [fresh]) == wanted
    assert last_updates(cluster, "seconds", time_windowed(str, 1_000)) == wanted["seconds"]
    assert last_updates(cluster, "sessions", session_windowed(str)) == wanted["sessions"]
    for topic in ("finals", "held"):
        assert_each_final_is_told(cluster, topic, closed)
    assert len(late) >= load.total // 100 - 2 * cluster.partition_count
    assert_each_late_record_is_told(cluster, late)
    print(f"{load.total} records, {len(late)} of them late, {dict(faults.made)}")


def assert_each_final_is_told(cluster: Cluster, topic: str, closed: Windows) -> None:
    """Each window that closed was put out with its count; again after a crash, but no other one."""
    key, count = time_windowed(str, 1_000), serde(int)
    told = {
        (key.decode(record.key), count.decode(record.value or b""))
        for record in read_all(
            cluster.servers, cluster.topic(topic), range(cluster.partition_count)
        )
    }
    assert told == set(closed.items())


def assert_each_late_record_is_told(cluster: Cluster, late: set[Record]) -> None:
    """Each fold put out each of its late records, perhaps again after a crash, and no other one."""
    folds: dict[bytes | None, set[tuple[int, int, bytes, bytes | None]]] = {}
    for told in read_all(cluster.servers, cluster.topic("late"), range(cluster.partition_count)):
        headers = dict(told.headers)
        read = int(headers["streamlet.partition"] or b""), int(headers["streamlet.offset"] or b"")
        fold = folds.setdefault(headers["streamlet.operator"], set())
        fold.add((*read, told.key, told.value))
    wanted = {(record.partition, record.offset, record.key, record.value) for record in late}
    assert list(folds.values()) == [wanted] * 2


def late_of(records: list[Record]) -> set[Record]:
    """The records that come when their second and its grace are over in their partition."""
    late: set[Record] = set()
    newest: dict[int, int] = {}
    for record in sorted(records, key=lambda one: (one.partition, one.offset)):
        now = newest[record.partition] = max(newest.get(record.partition, 0), record.at_ms)
        if record.at_ms // 1_000 * 1_000 + 1_000 + FINALS_GRACE_MS <= now:
            late.add(record)
    return late


def closed_of(seconds: Windows, records: list[Record]) -> Windows:
    """The windows that the newest record of their partition has closed."""
    newest: dict[int, int] = {}
    partition_of: dict[str, int] = {}
    for record in records:
        newest[record.partition] = max(newest.get(record.partition, 0), record.at_ms)
        partition_of[record.key.decode()] = record.partition
    return {
        window: count
        for window, count in seconds.items()
        if window.end + FINALS_GRACE_MS <= newest[partition_of[window.key]]
    }


def seconds_of(records: Iterable[Record]) -> Windows:
    """The number of records of each key in each second."""
    starts = [(record.key.decode(), record.at_ms // 1_000 * 1_000) for record in records]
    return dict(Counter(Windowed(key, start, start + 1_000) for key, start in starts))


def sessions_of(records: Iterable[Record]) -> Windows:
    """The sessions of each key, whose records have rising times."""
    times: dict[str, list[int]] = {}
    for record in records:
        times.setdefault(record.key.decode(), []).append(record.at_ms)
    found: Windows = {}
    for key, all_of_key in times.items():
        runs: list[list[int]] = []
        for time in sorted(all_of_key):
            if runs and time - runs[-1][-1] <= SESSION_GAP_MS:
                runs[-1].append(time)
            else:
                runs.append([time])
        found |= {Windowed(key, run[0], run[-1]): len(run) for run in runs}
    return found


def windows_on_disk(cluster: Cluster, instances: list[Instance]) -> dict[str, Windows]:
    """The windows of each store in the newest copy of each task, all tasks together."""
    newest: dict[TaskId, tuple[StateNumber, dict[str, Windows]]] = {}
    part = cluster.topology.subtopology(0)
    for instance in instances:
        for folder in copied(cluster, instance.state, instance.folder / "copy"):
            state = TaskState(folder.path, part.stores, 1 << 20)
            try:
                rows = {name: dict(store.range()) for name, store in state.stores.items()}
            finally:
                state.close()
            if folder.task not in newest or state.state > newest[folder.task][0]:
                newest[folder.task] = state.state, rows
    assert sorted(newest) == list(cluster.tasks)
    together: dict[str, Windows] = {store.name: {} for store in part.stores}
    for _, rows in newest.values():
        for name, windows in rows.items():
            together[name] |= windows
    return together


def last_updates(cluster: Cluster, topic: str, key: Serde[Windowed[str]]) -> Windows:
    """The last value of each window in an output topic; a deleted one is left out."""
    last: dict[bytes, bytes | None] = {}
    for record in read_all(cluster.servers, cluster.topic(topic), range(cluster.partition_count)):
        last[record.key] = record.value
    count = serde(int)
    return {key.decode(k): count.decode(v) for k, v in last.items() if v is not None}
