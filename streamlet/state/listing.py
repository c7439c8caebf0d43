"""Lists the state under a ``state.dir``, for ``state list`` and ``state clean``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import attrs

from streamlet.errors import StateError
from streamlet.state.directory import StateDirectory, TaskFolder
from streamlet.types import TopicPartition


@attrs.frozen
class Listed:
    """A task's folder, with what its stores contain as of their last write.

    ``positions`` are the next offsets to read, by changelog partition. ``problem``: why nothing is
    known of it.
    """

    application: str
    folder: TaskFolder
    stores: tuple[str, ...] = ()
    positions: tuple[tuple[TopicPartition, int], ...] = ()
    problem: str | None = None


def applications(root: Path) -> list[str]:
    """The applications that have a folder there, in order.

    Raises:
        StateError: the folder cannot be read.
    """
    try:
        return sorted(path.name for path in root.iterdir() if path.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateError(f"cannot read {root}: {error.strerror or error}") from error


def listed(root: Path, application: str | None = None) -> list[Listed]:
    """The folders of one application, or of all, by application and task; also those set aside.

    Raises:
        StateError: a folder cannot be read.
    """
    return [
        _read(name, folder)
        for name in applications(root)
        if application in (None, name)
        for folder in StateDirectory(root, name).folders()
    ]


def _read(application: str, folder: TaskFolder) -> Listed:
    try:
        found = folder.contents()
    except StateError as error:
        return Listed(application, folder, problem=str(error))
    if found is None:
        return Listed(application, folder)
    positions = tuple(sorted(found.positions.items()))
    return Listed(application, folder, tuple(sorted(found.layout)), positions)


def spare(found: Iterable[Listed], older_than_ms: int, now_ms: int) -> list[Listed]:
    """The folders that have been free for so long; ``now_ms`` is wall-clock time."""
    return [
        one
        for one in found
        if (since_ms := one.folder.dormant_since_ms) is not None
        and now_ms - since_ms >= older_than_ms
    ]
