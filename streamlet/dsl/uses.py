"""What the readers of a table need of it, noted while the topology is built.

Operators are made later, when tasks start; by then everything there is to note was noted.
"""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class TableUse:
    """Needs of those below a table's node.

    ``olds``: somebody reads the previous values. ``shown``: a user function sees the values, and
    might change one in place.
    """

    parent: TableUse | None = None
    olds: bool = False
    shown: bool = False

    def want_olds(self) -> None:
        """Note that somebody reads the previous values; they come from above."""
        self.olds = True
        if self.parent is not None:
            self.parent.want_olds()
