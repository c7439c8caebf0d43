"""The instances of this machine, found by what they keep in their state folders.

An instance says there what others on its host may want to know: its name, whether SIGUSR1 drains
it, how many workers it has, whether it is on its way out, how many tasks it still runs and, in the
end, how it ended. It is the lock's file, so a reader knows whether the instance lives.
"""

from __future__ import annotations

import threading
from pathlib import Path

import attrs

from streamlet.errors import ConfigError, NotFoundError, StateError
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
    workers: int  # processes, where others may change how many; else 0
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
            workers=number_in(fields, "workers"),
            leaving_since_ms=number_in(fields, "leaving_since_ms"),
            tasks=number_in(fields, "tasks"),
            ended=str(fields.get("ended", "")),
        )


def instances(root: Path) -> list[InstanceFolder]:
    """The instances whose state is, or was, under a ``state.dir``, by application."""
    return [InstanceFolder.read(file) for file in sorted(root.glob(f"*/{INSTANCE_LOCK}"))]


def living(root: Path, application: str | None, name: str | None) -> InstanceFolder:
    """The instance of a name that runs on this machine; None stands for any application or name.

    Raises:
        NotFoundError: there is none.
        ConfigError: there are several.
    """
    there = [one for one in instances(root) if one.pid is not None]
    found = [
        one for one in there if application in (None, one.application) and name in (None, one.name)
    ]
    if not found:
        of = "" if application is None else f" of {application}"
        called = "" if name is None else f" called {name}"
        runs = ", ".join(f"{one.application} {one.name}" for one in there)
        hint = f"running there: {runs}" if runs else "give --state-dir as its streamlet run had it"
        raise NotFoundError(
            f"no instance{of}{called} runs on this host with its state in {root}; {hint}"
        )
    if len(found) > 1:
        which = ", ".join(f"{one.application} {one.name}" for one in found)
        raise ConfigError([f"several instances run here ({which}): say APP or --name"])
    return found[0]


class InstanceRecord:
    """The record that a running instance keeps in its folder; written when it changes.

    Args:
        lock: the instance's, held.
        name: what people call it.
    """

    def __init__(self, lock: FolderLock, name: str) -> None:
        self._lock = lock
        self._one_at_a_time = threading.Lock()
        lock.set(name=name, drains=0, workers=0, leaving_since_ms=0, tasks=0, ended="")

    def say(self, **fields: str | int) -> None:
        """Change the record; from any thread. Write errors do not stop the caller."""
        with self._one_at_a_time:
            if all(self._lock.fields.get(name) == value for name, value in fields.items()):
                return
            try:
                self._lock.set(**fields)
            except StateError as error:
                log.warning("others on this host cannot read how it is here: %s", error)
