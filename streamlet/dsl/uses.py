"""The needs of a table's readers, noted while the topology is built.

Operators are made later, when tasks start; by then everything there is to note was noted.
"""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class TableUse:
    """Needs of those below a table's node.

    ``olds``: a reader needs the previous values. ``shown``: a user function sees the values, and
    might change one in place.
    """

    parent: TableUse | None = None
    olds: bool = False
    shown: bool = False

    def want_olds(self) -> None:
        """Note that a reader needs the previous values; they come from above."""
        self.olds = True
        if self.parent is not None:
            self.parent.want_olds()
