"""Rows that a store keeps beside those of its keys, and writes with the same commits."""

from __future__ import annotations

from collections.abc import Sequence

from streamlet.state.backing import Backing


class Beside:
    """Rows beside those of a store's keys, which ``StoreCommits`` takes through its commits.

    There are none of them here: those of the keys are all that the store has.
    """

    def rows_of(self, backing: Backing) -> Backing:
        """The medium without these rows."""
        return backing

    def has_changes(self) -> bool:
        """True if a drain would return any."""
        return False

    def drain(self, again: Sequence[bytes]) -> tuple[list[bytes], list[bytes | None]]:
        """Keys and values of the rows that have changed, and of those that ``again`` asks for.

        They are on their way until ``written``.
        """
        return [], []

    def undo_drain(self) -> None:
        """Take back a drain: the rows have changed again."""

    def written(self) -> None:
        """Note that a drain is on the medium."""

    def forget(self) -> None:
        """Read what is on the medium again: it has changed."""

    def reset(self, backing: Backing) -> None:
        """Forget all that is not on the medium, which is this one now."""
