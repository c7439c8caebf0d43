"""A worker that starts over a folder with the store of a table that nothing reads any more."""

from __future__ import annotations

from pathlib import Path

from streamlet.app import App
from streamlet.hosting.adoption import adopt_folders
from streamlet.topology.graph import Topology
from streamlet.types import TaskId
from tests.unit.runtime.members import Group, Member, wait_for

ROWS = "words-STATE-STORE-0000000000"
KEYS = 40


def counted(*, read: bool) -> Topology:
    """Counts the changes of a table, which a join does or does not look up."""
    app = App("app")
    table = app.table("words", key=str, value=str)
    changes = table.to_stream()
    if read:
        changes.left_join(table, lambda one, two: one, value=str)
    changes.group_by_key().count(store="counts").to_stream().to("counts")
    return app.topology()


def start(group: Group, topology: Topology) -> Member:
    """What an instance does before its worker starts, and the worker."""
    group.topology = topology
    member = group.idle_member("one")
    lock = member.directory.lock_instance()[1]
    adopt_folders(member.directory, lock, topology)
    lock.release()
    group.members.append(member)
    member.thread.start()
    return member


def run(group: Group, topology: Topology, each: int) -> dict[TaskId, dict[str, int]]:
    """Let a worker count so many of each key; the entries in its stores at the end."""
    before = group.put_out
    group.produce(each, KEYS)
    member = start(group, topology)
    wait_for(lambda: member.failed or group.put_out == before + each * KEYS, "all counted")
    found = {
        task: {name: len(dict(store.range())) for name, store in state.stores.items()}
        for task, state in member.open_tasks().items()
    }
    member.told.set()
    member.thread.join()
    assert member.failed is None
    return found


def test_counts_go_on_without_the_store_and_with_it_again(tmp_path: Path) -> None:
    """The table's rows are all there again, those of the time without the store as well."""
    group = Group(tmp_path, counted(read=True))
    with_rows = run(group, counted(read=True), 2)
    without = run(group, counted(read=False), 1)
    again = run(group, counted(read=True), 1)
    assert all(stores.keys() == {"counts"} for stores in without.values())
    assert sum(stores["counts"] for stores in without.values()) == KEYS
    for found in (with_rows, again):
        assert sum(stores[ROWS] for stores in found.values()) == KEYS
    assert group.counts() == {f"k{i}": [1, 2, 3, 4] for i in range(KEYS)}


def test_a_task_with_no_other_store_goes_on_too(tmp_path: Path) -> None:
    def passed(*, read: bool) -> Topology:
        app = App("app")
        table = app.table("words", key=str, value=str)
        changes = table.to_stream()
        if read:
            changes = changes.left_join(table, lambda one, two: one, value=str)
        changes.to("counts")
        return app.topology()

    group = Group(tmp_path, passed(read=True))
    run(group, passed(read=True), 2)
    without = run(group, passed(read=False), 1)
    assert all(not stores for stores in without.values())
    assert {folder.bytes for folder in group.members[-1].directory.folders()} == {0}
    again = run(group, passed(read=True), 1)
    assert sum(stores[ROWS] for stores in again.values()) == KEYS
    assert group.put_out == 4 * KEYS
