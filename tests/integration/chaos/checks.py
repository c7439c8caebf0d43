"""What must hold of an application's state and outputs, whatever happened to it."""

from __future__ import annotations

from collections import Counter

from streamlet.types import TaskId
from tests.integration.chaos.states import Changelogs, Copy, assert_agrees, read_copies
from tests.integration.chaos.support import SELDOM_S, Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load, Record, last_numbers, read_all


def await_share(cluster: Cluster, instance: Instance, members: int = 1) -> None:
    """Wait until so many members of an instance have committed a task."""

    def has_share() -> bool:
        owners = set(cluster.owners().values())
        return sum(owner.startswith(f"{instance.name}-") for owner in owners) >= members

    wait_for(
        has_share, lambda: f"{instance.name} has its share\n{cluster.logs()}", pause_s=SELDOM_S
    )


def go_on(load: Load, times: int = 5) -> None:
    """Let each key come so often.

    Who lost its tasks may still put out what it has of them, late: below what others put out since.
    """
    wanted = {key: count + times for key, count in load.produced.copy().items()}
    wait_for(
        lambda: all(load.produced[key] >= count for key, count in wanted.items()),
        "the load goes on",
    )


def contents(cluster: Cluster, instances: list[Instance]) -> dict[TaskId, Copy]:
    """The newest copy of each task among the folders of stopped instances."""
    newest: dict[TaskId, Copy] = {}
    changelogs = Changelogs(cluster)
    for instance in instances:
        for copy in read_copies(cluster, instance.state, instance.folder / "copy"):
            assert_agrees(cluster, copy, changelogs)
            if copy.task not in newest or copy.state > newest[copy.task].state:
                newest[copy.task] = copy
    return newest


def counts_of(copies: dict[TaskId, Copy], store: str) -> dict[str, int]:
    """A store of counts, all its partitions together."""
    return {
        key.decode(): int.from_bytes(value, "big", signed=True)
        for copy in copies.values()
        for key, value in copy.entries.get(store, {}).items()
    }


def assert_counts_exact(cluster: Cluster, copies: dict[TaskId, Copy], true: Counter[str]) -> None:
    """State, and the last output of each key, are the true counts; every count was put out."""
    found = counts_of(copies, "counts")
    assert found == true, _difference(cluster, copies, found, true)
    records = read_all(cluster.servers, cluster.topic("counts"), range(cluster.partition_count))
    assert last_numbers(records) == true, _late(records, true)
    seen: dict[bytes, set[int]] = {}
    for record in records:
        seen.setdefault(record.key, set()).add(record.number)
    for key, numbers in seen.items():
        assert numbers == set(range(1, true[key.decode()] + 1)), f"updates of {key!r} are missing"


def _difference(
    cluster: Cluster, copies: dict[TaskId, Copy], found: dict[str, int], true: Counter[str]
) -> str:
    """The keys that differ, and where: is it in the input, once, and is it in the last commit?"""
    source = read_all(cluster.servers, cluster.topic("in"), range(cluster.partition_count))
    there = Counter(record.key.decode() for record in source)
    twice = len(source) - len({record.number for record in source})
    keys = sorted(key for key in {*found, *true} if found.get(key, 0) != true[key])
    some = {key: (found.get(key, 0), true[key], there[key]) for key in keys[:9]}
    starts = {r.partition: r.offset for r in reversed(source)}
    return (
        f"{len(keys)} of {len(true)} keys (found, true, in the input): {some}; "
        f"{sum(found.values())}, {sum(true.values())}, {len(source)} in all, {twice} twice; "
        f"copies older than the task's commit: {_stale(cluster, copies)}; "
        f"the input begins at {starts}, lacks and has around that: {_around_gaps(source)}"
    )


def _around_gaps(source: list[Record]) -> dict[int, list[Record]]:
    """Numbers that are not in the input though later ones are, with what was produced around."""
    by_number = {record.number: record for record in source}
    gaps = sorted(set(range(max(by_number, default=-1) + 1)) - by_number.keys())[:9]
    return {gap: [by_number[n] for n in range(gap - 4, gap + 5) if n in by_number] for gap in gaps}


def _late(records: list[Record], true: Counter[str]) -> str:
    """The keys whose last output is no true count, each with what was put out last and when, ms."""
    last = last_numbers(records)
    keys = sorted(key for key in {*last, *true} if last.get(key, 0) != true[key])
    ends = {
        key: [(r.at_ms, r.partition, r.offset, r.number) for r in records if r.key == key.encode()]
        for key in keys[:3]
    }
    newest = max((record.at_ms for record in records), default=0)
    some = {key: [true[key], *end[-12:]] for key, end in ends.items()}
    return f"{len(keys)} of {len(true)} keys, the newest record of all is of {newest}: {some}"


def _stale(cluster: Cluster, copies: dict[TaskId, Copy]) -> dict[str, str]:
    """Tasks whose newest copy is not as of their commit: the state there is in the changelog."""
    committed = cluster.committed()
    commits = {task: cluster.of_task(task, committed).metadata for task in copies}
    return {
        str(task): f"{copies[task].state}, not {commit.state}"
        for task, commit in commits.items()
        if commit is not None and commit.state != copies[task].state
    }


def assert_complete_and_in_order(records: list[Record], true: Counter[str]) -> None:
    """Each key was counted 1, 2, 3, … to its end; nothing came twice."""
    numbers: dict[str, list[int]] = {}
    for record in records:
        numbers.setdefault(record.key.decode(), []).append(record.number)
    assert numbers == {key: list(range(1, count + 1)) for key, count in true.items()}
