"""The group's agreement on what may be written to repartition topics."""

from __future__ import annotations

import attrs


@attrs.define
class Agreement:
    """The group's answers to what may be written, as of its last assignment.

    ``prefixes``: origins (``edges.writer``); ``held``: records that wait for a commit. When one
    changes, a task changes with it once all it wrote in the other form is committed.
    """

    prefixes: bool = False
    held: bool = False

    def take(self, prefixes: bool, held: bool) -> None:
        """Take the answers of another assignment."""
        self.prefixes, self.held = prefixes, held
