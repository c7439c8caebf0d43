"""Rows that a store keeps beside those of its keys, and writes with the same commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from streamlet.state.backing import Backing


class Beside(Protocol):
    """Rows beside those of a store's keys, which ``StoreCommits`` takes through its commits."""

    def rows_of(self, backing: Backing) -> Backing:
        """The medium without these rows."""
        ...

    def has_changes(self) -> bool:
        """True if a drain would return any."""
        ...

    def drain(self, again: Sequence[bytes]) -> tuple[list[bytes], list[bytes | None]]:
        """Keys and values of the rows that have changed, and of those that ``again`` asks for.

        They are on their way until ``written``.
        """
        ...

    def undo_drain(self) -> None:
        """Take back a drain: the rows have changed again."""
        ...

    def written(self) -> None:
        """Note that a drain is on the medium."""
        ...

    def forget(self) -> None:
        """Read what is on the medium again: it has changed."""
        ...

    def reset(self, backing: Backing) -> None:
        """Forget all that is not on the medium, which is this one now."""
        ...


class NothingBeside:
    """No rows: those of the keys are all that the store has."""

    def rows_of(self, backing: Backing) -> Backing:
        """The medium as it is."""
        return backing

    def has_changes(self) -> bool:
        """False: there are none."""
        return False

    def drain(self, _again: Sequence[bytes]) -> tuple[list[bytes], list[bytes | None]]:
        """No rows."""
        return [], []

    def undo_drain(self) -> None:
        """Do nothing: no row was drained."""

    def written(self) -> None:
        """Do nothing: no row was drained."""

    def forget(self) -> None:
        """Do nothing: no row was read."""

    def reset(self, backing: Backing) -> None:
        """Do nothing: no row is kept."""
