"""Limits how many moves one round may begin (design III): every so many, at every so often."""

from __future__ import annotations

import attrs

from streamlet.assignor.values import Rules

#: How long an ordered hand-over is left alone before the plan is looked at again, if it must be.
#: A round begun earlier would find the order not carried out yet, and could only repeat it.
RELEASE_MS = 1000


@attrs.define
class Allowance:
    """Moves left in this round, None without a limit; ``refused`` counts moves that must wait."""

    left: int | None
    refused: int = 0

    @classmethod
    def of(cls, rules: Rules, *, paused: bool = False) -> Allowance:
        """A full allowance, or none at all between two bounded rounds."""
        return cls(0 if paused else rules.max_moves or None)

    def take(self) -> bool:
        """Begin one move, if there is one left."""
        if self.left is None:
            return True
        if self.left == 0:
            self.refused += 1
            return False
        self.left -= 1
        return True

    def spend(self) -> None:
        """Count a move that cannot be put off, so that fewer others begin beside it."""
        if self.left:
            self.left -= 1
