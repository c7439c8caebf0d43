"""State that a reset made worthless, on the disk of an instance that starts."""

from __future__ import annotations

import logging

from streamlet.control.values import ResetEpoch
from streamlet.errors import RefusedError
from streamlet.state.directory import FolderLock, StateDirectory

log = logging.getLogger(__name__)


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
