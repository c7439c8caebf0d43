"""Folders of an earlier topology get the names that their stores have now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlet import App
from streamlet.dsl.graph.materialized import Materialized
from streamlet.errors import StateLockedError, StateMismatchError
from streamlet.hosting.adoption import adopt_folders, discard_old
from streamlet.state.directory import FolderLock, StateDirectory
from streamlet.state.meta import TaskMeta
from streamlet.state.task_state import TaskState
from streamlet.tasks.opening import TaskOpener, changelogs_of
from streamlet.topology.graph import Topology
from streamlet.types import StateNumber, TaskId


def topology(*stores: str, serde: type = int) -> Topology:
    """A subtopology for each of these; ``x+y`` has two stores, ``-`` none, ``x!`` no changelog."""
    app = App("app")
    for number, names in enumerate(stores):
        source = app.stream(f"in-{number}", key=str, value=serde)
        for name in names.split("+"):
            if name == "-":
                source.to("out")
            else:
                source.group_by_key().aggregate(
                    serde,
                    lambda key, value, sum_: sum_ + value,
                    value=serde,
                    store=Materialized(name.rstrip("!"), logged=not name.endswith("!")),
                )
    return app.topology()


class Host:
    """A folder of an application with its instance lock."""

    def __init__(self, root: Path) -> None:
        self.directory = StateDirectory(root, "app")
        self.lock: FolderLock = self.directory.lock_instance()[1]

    def write(self, made: Topology, task: TaskId, number: int = 1) -> None:
        """Leave what a commit of a task leaves; its value is the commit's number."""
        opened = TaskOpener(made, self.directory, 1 << 20)(task)
        for store in opened.state.stores.values():
            store.put(f"{store.name}-{task.partition}", number)
        positions = dict.fromkeys(opened.state.changelogs.values(), number)
        opened.state.write(opened.state.drain(), StateNumber(1, number), positions)
        opened.close()

    def start(self, made: Topology) -> None:
        """What an instance does before its workers start."""
        adopt_folders(self.directory, self.lock, made)

    def stores(self, made: Topology) -> dict[str, dict[str, int]]:
        """The entries of each task with state, as the topology finds them."""
        found = {}
        for folder in self.directory.tasks():
            part = made.subtopology(folder.task.subtopology)
            with self.directory.lock_task(folder.task) as lock:
                state = TaskState(
                    lock.folder, part.stores, 1 << 20, changelogs_of(part, folder.task)
                )
                entries = {k: v for s in state.stores.values() for k, v in s.range()}
                state.close()
            if entries:
                found[str(folder.task)] = entries
        return found


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    yield host
    host.lock.release()


def test_a_subtopology_in_front_shifts_folders_and_taking_it_away_shifts_them_back(
    host: Host,
) -> None:
    old, new = topology("a", "b"), topology("new", "a", "b")
    for task in (TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)):
        host.write(old, task)
    host.start(new)
    assert host.stores(new) == {"1_0": {"a-0": 1}, "1_1": {"a-1": 1}, "2_0": {"b-0": 1}}
    host.start(old)
    assert host.stores(old) == {"0_0": {"a-0": 1}, "0_1": {"a-1": 1}, "1_0": {"b-0": 1}}


def test_what_only_the_new_topology_has_waits_aside_for_its_return(host: Host) -> None:
    """Its number is another's now; no changelog has it."""
    old, new = topology("a"), topology("new!", "a")
    host.write(new, TaskId(0, 0), 3)
    host.write(new, TaskId(1, 0))
    host.write(new, TaskId(0, 1), 4)
    host.start(new)
    for _ in range(2):
        host.start(old)
        assert host.stores(old) == {"0_0": {"a-0": 1}}
        assert len(host.directory.folders()) == 3
        host.start(topology("a", "-"))
        host.start(topology("a", "other"))
        host.start(new)
        assert host.stores(new) == {"0_0": {"new-0": 3}, "0_1": {"new-1": 4}, "1_0": {"a-0": 1}}


def test_two_subtopologies_may_change_places(host: Host) -> None:
    host.write(topology("a", "b"), TaskId(0, 0))
    host.write(topology("a", "b"), TaskId(1, 0))
    host.start(topology("b", "a"))
    assert host.stores(topology("b", "a")) == {"0_0": {"b-0": 1}, "1_0": {"a-0": 1}}


def test_a_folder_without_stores_makes_room(host: Host) -> None:
    old, new = topology("a", "-"), topology("-", "a")
    host.write(old, TaskId(0, 0))
    TaskOpener(old, host.directory, 1 << 20)(TaskId(1, 0)).close()
    host.start(new)
    assert host.stores(new) == {"1_0": {"a-0": 1}}


def test_a_restart_with_the_same_stores_opens_no_folder(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.write(topology("a"), TaskId(0, 0))
    host.start(topology("a"))
    monkeypatch.setattr(TaskMeta, "from_bytes", None)  # whoever reads a folder calls it
    host.start(topology("a", "-"))
    with pytest.raises(TypeError):
        host.start(topology("-", "a"))


def test_a_rename_that_was_broken_off_is_finished(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = topology("a", "b"), topology("b", "a")
    for task in (TaskId(0, 0), TaskId(1, 0)):
        host.write(old, task)
    rename, done = Path.rename, []

    def killed(self: Path, target: Path) -> Path:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(target)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        host.start(new)
    monkeypatch.undo()
    assert len(host.directory.tasks()) == 1
    assert len(host.directory.folders()) == 2
    host.start(new)
    assert host.stores(new) == {"0_0": {"b-0": 1}, "1_0": {"a-0": 1}}


def test_of_two_folders_of_one_task_the_newer_is_kept(host: Host) -> None:
    old, new = topology("a"), topology("-", "a")
    host.write(old, TaskId(0, 0), 7)
    host.write(new, TaskId(1, 0), 5)
    host.start(new)
    assert host.stores(new) == {"1_0": {"a-0": 7}}


def test_subtopologies_that_became_one_keep_a_folder_and_restore_the_other(host: Host) -> None:
    old, new = topology("a", "b"), topology("a+b")
    host.write(old, TaskId(0, 0), 2)
    host.write(old, TaskId(1, 0), 1)
    host.start(new)
    assert host.stores(new) == {"0_0": {"a-0": 2}}


def test_what_no_changelog_has_is_not_removed(host: Host) -> None:
    old = topology("a", "b!")
    host.write(old, TaskId(0, 0), 2)
    host.write(old, TaskId(1, 0), 1)
    with pytest.raises(StateMismatchError, match="store b has no changelog"):
        host.start(topology("a+b!"))
    host.start(old)
    assert host.stores(old) == {"0_0": {"a-0": 2}, "1_0": {"b-0": 1}}


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (topology("-", "b"), None),
        (topology("b"), "store a is not in the topology any more"),
        (topology("new", "a", serde=str), "store a held str -> int, now str -> str"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_renamed(
    host: Host, new: Topology, reason: str | None
) -> None:
    """A folder whose number has no stores any more is in nobody's way."""
    old = topology("a")
    host.write(old, TaskId(0, 0))
    if reason is None:
        host.start(new)
    else:
        with pytest.raises(StateMismatchError, match=reason):
            host.start(new)
    host.start(old)
    assert host.stores(old) == {"0_0": {"a-0": 1}}


def test_a_folder_that_a_process_still_has_open_is_not_renamed(host: Host) -> None:
    old, new = topology("a"), topology("new", "a")
    host.write(old, TaskId(0, 0))
    held = host.directory.lock_task(TaskId(0, 0))
    with pytest.raises(StateLockedError, match="state of task 0_0"):
        host.start(new)
    held.release()
    host.start(new)
    assert host.stores(new) == {"1_0": {"a-0": 1}}


def tables(*, read: bool, counts: str = "") -> Topology:
    """A table of ``t`` whose store is or is not read, and a count beside it in its subtopology."""
    app = App("app")
    table = app.table("t", key=str, value=int)
    stream = table.to_stream()
    if read:
        stream.left_join(table, lambda one, two: one).to("joined")
    if counts:
        stream.group_by_key().count(store=counts)
    return app.topology()


ROWS = "t-STATE-STORE-0000000000"


def test_a_store_that_nothing_reads_any_more_is_dropped_and_the_others_stay(host: Host) -> None:
    """A table read again is restored from the beginning: nothing is said of what was dropped."""
    old, new = (tables(read=read, counts="counts") for read in (True, False))
    task = TaskId(0, 0)
    host.write(old, task, 7)
    host.start(new)
    opened = TaskOpener(new, host.directory, 1 << 20)(task)
    assert {name: dict(s.range()) for name, s in opened.state.stores.items()} == {
        "counts": {"counts-0": 7}
    }
    assert opened.state.state == StateNumber(1, 7)
    assert {tp.topic for tp in opened.state.positions} == {"app-counts-changelog"}
    opened.close()

    host.start(old)
    again = TaskOpener(old, host.directory, 1 << 20)(task)
    assert dict(again.state.stores["counts"].range()) == {"counts-0": 7}
    assert dict(again.state.stores[ROWS].range()) == {}
    assert {tp.topic for tp in again.state.positions} == {"app-counts-changelog"}
    again.close()


def test_a_folder_with_nothing_but_what_nothing_reads_is_removed(host: Host) -> None:
    old, new = tables(read=True), tables(read=False)
    host.write(old, TaskId(0, 0), 7)
    host.write(old, TaskId(0, 1), 7)
    host.start(new)
    assert host.directory.folders() == []


def test_a_store_of_another_topology_is_refused_beside_one_that_nothing_reads(host: Host) -> None:
    host.write(tables(read=True, counts="counts"), TaskId(0, 0), 7)
    new = tables(read=False, counts="others")
    for start in (host.start, lambda made: TaskOpener(made, host.directory, 1 << 20)(TaskId(0, 0))):
        with pytest.raises(StateMismatchError, match="store counts is not in the topology") as said:
            start(new)
        assert ROWS not in str(said.value)


def test_state_that_was_unused_for_too_long_is_deleted_if_changelogs_have_it(host: Host) -> None:
    made = topology("a", "b!")
    for task in (TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)):
        host.write(made, task)
    used_ms = {one.task: one.used_ms for one in host.directory.tasks()}
    longest_ms, last_ms = 1_000, max(used_ms.values())

    def left(at_ms: int, max_age_ms: int = longest_ms) -> set[str]:
        discard_old(host.directory, made, max_age_ms, at_ms)
        return {str(one.task) for one in host.directory.tasks()}

    assert left(last_ms + 10**9, -1) == {"0_0", "0_1", "1_0"}, "it is off"
    assert left(min(used_ms.values()) + longest_ms) == {"0_0", "0_1", "1_0"}
    with host.directory.lock_task(TaskId(0, 1)):
        assert left(last_ms + longest_ms + 1) == {"0_1", "1_0"}, "a process has one"
    again_ms = max(one.used_ms for one in host.directory.tasks())
    assert left(again_ms + longest_ms + 1) == {"1_0"}, "of the other no changelog has a copy"
    assert left(again_ms + longest_ms + 1, longest_ms * 2) == {"1_0"}
