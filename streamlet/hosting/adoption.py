"""Task folders on an instance that starts: too old, from before a reset, or of another topology.

A reset makes all state worthless that an instance then finds on its disk.

A folder bears its task's name, subtopology number and partition. The numbers follow from the order
in which a topology declares its sources. When that order changed while the application was stopped,
each folder is renamed to the number that the subtopology with its stores has now. A folder whose
number another one needs, and whose stores the topology does not have, is set aside: a topology that
has them again finds it there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import attrs

from streamlet.control.values import ResetEpoch
from streamlet.errors import RefusedError, StateMismatchError, TaskCorruptedError
from streamlet.logs import get_logger
from streamlet.state.directory import FolderLock, StateDirectory, TaskFolder
from streamlet.state.meta import TaskMeta, layout_of
from streamlet.topology.graph import Topology
from streamlet.types import NO_STATE, StateNumber, TaskId

log = get_logger(__name__)


@attrs.frozen
class _Found:
    """A folder with what its stores say; ``meta`` is None where there are none to read."""

    folder: TaskFolder
    meta: TaskMeta | None

    @property
    def task(self) -> TaskId:
        """The task it is named after."""
        return self.folder.task

    @property
    def is_aside(self) -> bool:
        """True if the folder does not have the name of a task."""
        return self.folder.path.name != str(self.task)

    @property
    def layout(self) -> Mapping[str, tuple[str, str]]:
        """The stores in the folder, by name."""
        return {} if self.meta is None else self.meta.layout

    @property
    def worth(self) -> tuple[int, StateNumber]:
        """The rank of a folder among several of one task; the highest is kept."""
        return len(self.layout), NO_STATE if self.meta is None else self.meta.state


@attrs.frozen
class _Plan:
    """Folders to rename by the task they are for, and folders to remove and to set aside.

    ``needless`` are those to remove since nothing reads their stores.
    """

    moves: Mapping[TaskId, _Found]
    removed: Sequence[_Found]
    aside: Sequence[_Found]
    needless: Sequence[_Found]


def adopt_folders(directory: StateDirectory, lock: FolderLock, topology: Topology) -> None:
    """Give each task folder the name that its stores have in this topology.

    Nothing is changed unless all folders fit. A restart with the same stores looks at no folder.

    Args:
        directory: the application's folder on this host.
        lock: the instance's; it is noted there which stores the folders were named by.
        topology: what is about to run.

    Raises:
        StateMismatchError: a folder does not fit the topology.
        StateLockedError: a process of an earlier run has a folder open that is to be renamed.
        StateError: a folder cannot be used.
    """
    stores = _fingerprint(topology)
    if lock.fields.get("stores") == stores:
        return
    _carry_out(directory, _plan(topology, [_read(folder) for folder in directory.folders()]))
    lock.set(stores=stores)


def _read(folder: TaskFolder) -> _Found:
    try:
        return _Found(folder, folder.contents())
    except TaskCorruptedError as error:
        log.debug("state of task %s stays where it is: %s", folder.task, error)
        return _Found(folder, None)


def _plan(topology: Topology, found: Sequence[_Found]) -> _Plan:
    where = {spec.name: part.id for part in topology.subtopologies for spec in part.stores}
    parts = {part.id: part for part in topology.subtopologies if part.stores}
    numbers = [frozenset(where[name] for name in one.layout if name in where) for one in found]
    filled = {number for some in numbers if len(some) == 1 for number in some}
    candidates: dict[TaskId, list[_Found]] = {}
    unread = {spec.name for part in topology.subtopologies for spec in part.unread_stores}
    aside, needless = [], []
    for one, some in zip(found, numbers, strict=True):
        if one.layout and one.layout.keys() <= unread:
            needless.append(one)
            continue
        number = min(some) if len(some) == 1 else one.task.subtopology
        if one.layout and not some and (number in filled or one.is_aside):
            aside.append(one)
            continue
        if one.meta is not None and number in parts:
            one.meta.check_layout(layout_of(parts[number].stores), str(one.folder.path), unread)
        candidates.setdefault(TaskId(number, one.task.partition), []).append(one)
    kept = {task: max(some, key=lambda one: one.worth) for task, some in candidates.items()}
    removed = [one for task, some in candidates.items() for one in some if one is not kept[task]]
    for one in removed:
        _check_spare(one, topology)
    moves = {task: one for task, one in kept.items() if one.folder.path.name != str(task)}
    return _Plan(moves, removed, [one for one in aside if not one.is_aside], needless)


def _check_spare(one: _Found, topology: Topology) -> None:
    """Refuse to remove what no changelog has."""
    for part in topology.subtopologies:
        for spec in part.stores:
            if spec.name in one.layout and part.changelog_topic(spec.name) is None:
                raise StateMismatchError(
                    f"two folders hold state of one task now, {one.folder.path} is one of them. "
                    f"Its store {spec.name} has no changelog to restore it from: remove that "
                    "folder if its entries are not needed any more, or go back to the topology "
                    "before"
                )


def _carry_out(directory: StateDirectory, plan: _Plan) -> None:
    with ExitStack() as held:
        gone = (*plan.removed, *plan.needless)
        removed = [held.enter_context(directory.lock_folder(one.folder)) for one in gone]
        moves = {
            task: held.enter_context(directory.lock_folder(one.folder))
            for task, one in plan.moves.items()
        }
        aside = {
            held.enter_context(directory.lock_folder(one.folder)): one.task for one in plan.aside
        }
        for lock in removed:
            directory.remove(lock)
        directory.rename(moves, aside)
    for task, one in sorted(plan.moves.items()):
        log.warning("subtopologies have new numbers: state of task %s is now %s", one.task, task)
    for one in plan.aside:
        names = ", ".join(sorted(one.layout))
        log.warning("state of task %s is set aside: no subtopology has %s now", one.task, names)
    for one in plan.needless:
        names = ", ".join(sorted(one.layout))
        log.info("state in %s is removed: nothing reads %s", one.folder.path, names)
    for one in plan.removed:
        if one.meta is not None:
            log.warning("state in %s is removed, another folder has the task", one.folder.path)


def _fingerprint(topology: Topology) -> str:
    """Changes when the stores of a subtopology do, their serdes, or its number."""
    layouts = {part.id: layout_of(part.stores) for part in topology.subtopologies if part.stores}
    text = json.dumps(layouts, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def discard_old(
    directory: StateDirectory, topology: Topology, max_age_ms: int, now_ms: int
) -> None:
    """Discard state that no process has used for so long; it is restored from changelogs.

    State stays of which a store has no changelog in this topology. As
    ``state.cleanup.dir.max.age.ms`` of Kafka Streams (KIP-1259).

    Args:
        directory: the application's folder on this host.
        topology: what is about to run.
        max_age_ms: below 0: state of any age stays.
        now_ms: wall-clock time.

    Raises:
        StateError: state cannot be deleted.
    """
    if max_age_ms < 0:
        return
    restored = {
        spec.name
        for part in topology.subtopologies
        for spec in part.stores
        if part.changelog_topic(spec.name) is not None
    }
    for folder in directory.tasks():
        since_ms = folder.dormant_since_ms
        if since_ms is None or now_ms - since_ms <= max_age_ms:
            continue
        days = (now_ms - since_ms) / 86_400_000
        if not _read(folder).layout.keys() <= restored:
            log.warning(
                "state of %.1f days in %s stays: not all has a changelog", days, folder.path
            )
        elif directory.clean(folder):
            log.warning("state in %s is deleted: it was unused for %.1f days", folder.path, days)


def discard_before_reset(directory: StateDirectory, lock: FolderLock, reset: ResetEpoch) -> None:
    """Discard the state of a folder that does not know of the last reset, and note that one.

    Topic ids do not tell state from before a reset, since stores need not have changelogs.

    Raises:
        RefusedError: the reset was not finished.
        StateError: state cannot be deleted.
    """
    if reset.pending is not None:
        raise RefusedError(
            f"{directory.path.name} is being reset or backfilled, or that was broken off: wait, or "
            f"give streamlet reset {directory.path.name} again"
        )
    if not reset.epoch or lock.fields.get("reset") == reset.text:
        return
    found = directory.folders()
    for folder in found:
        directory.remove(directory.lock_folder(folder))
    if found:
        tasks = " ".join(str(folder.task) for folder in found)
        log.warning("the application was reset: state of tasks %s is discarded", tasks)
    lock.set(reset=reset.text)
