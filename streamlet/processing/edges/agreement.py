"""The group's agreement on what may be written to repartition topics."""

from __future__ import annotations

import attrs


@attrs.define
class Agreement:
    """The group's answers to what may be written, as of its last assignment.

    ``prefixes``: origins (``edges.writer``); ``held``: records that wait for a commit. When one
    changes, a task changes with it. What it wrote since its last commit has the other form: if it
    crashes before the next commit, that may count twice.
    """

    prefixes: bool = False
    held: bool = False

    def take(self, prefixes: bool, held: bool) -> None:
        """Take the answers of another assignment."""
        self.prefixes, self.held = prefixes, held
