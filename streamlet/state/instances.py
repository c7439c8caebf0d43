"""The instances of this machine, found by what they keep in their state folders.

An instance says there what others on its host may want to know: its name, whether SIGUSR1 drains
it, whether it is on its way out, how many tasks it still runs and, in the end, how it ended. It is
the lock's file, so a reader knows whether the instance lives.
"""

from __future__ import annotations

import threading
from pathlib import Path

import attrs

from streamlet.errors import StateError
from streamlet.logs import get_logger
from streamlet.state.directory import INSTANCE_LOCK, FolderLock, fields_of, holder_of, number_in

log = get_logger(__name__)


@attrs.frozen
class InstanceFolder:
    """An instance as its folder shows it. ``pid`` is None when it does not run."""

    application: str
    file: Path
    pid: int | None
    name: str
    drains: bool
    leaving_since_ms: int  # wall-clock time, 0: it is not leaving
    tasks: int
    ended: str  # drained, stopped or failed; empty while it runs

    @classmethod
    def read(cls, file: Path) -> InstanceFolder:
        """Look at the lock's file of an instance."""
        fields = fields_of(file)
        return cls(
            application=file.parent.name,
            file=file,
            pid=holder_of(file),
            name=str(fields.get("name", "")),
            drains=bool(fields.get("drains")),
            leaving_since_ms=number_in(fields, "leaving_since_ms"),
            tasks=number_in(fields, "tasks"),
            ended=str(fields.get("ended", "")),
        )


def instances(root: Path) -> list[InstanceFolder]:
    """The instances whose state is, or was, under a ``state.dir``, by application."""
    return [InstanceFolder.read(file) for file in sorted(root.glob(f"*/{INSTANCE_LOCK}"))]


class InstanceRecord:
    """The record that a running instance keeps in its folder; written when it changes.

    Args:
        lock: the instance's, held.
        name: what people call it.
    """

    def __init__(self, lock: FolderLock, name: str) -> None:
        self._lock = lock
        self._one_at_a_time = threading.Lock()
        lock.set(name=name, drains=0, leaving_since_ms=0, tasks=0, ended="")

    def say(self, **fields: str | int) -> None:
        """Change the record; from any thread. Write errors do not stop the caller."""
        with self._one_at_a_time:
            if all(self._lock.fields.get(name) == value for name, value in fields.items()):
                return
            try:
                self._lock.set(**fields)
            except StateError as error:
                log.warning("others on this host cannot read how it is here: %s", error)
