"""The needs of a table's readers, noted while the topology is built.

Operators are made later, when tasks start; by then everything there is to note was noted.
"""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class TableUse:
    """The needs of the nodes below a table's node.

    ``olds``: a reader needs the previous values. ``unnamed`` is a table of a topic or stream whose
    store the user did not ask for: Kafka Streams would keep none, and so would not know the
    previous values. ``kept`` is a table that knows them in any case. ``sides`` are the tables of a
    join, whose previous values make its own.
    """

    unnamed: bool = attrs.field(default=False, kw_only=True)
    kept: bool = attrs.field(default=False, kw_only=True)
    sides: tuple[TableUse, ...] = attrs.field(default=(), kw_only=True)
    parent: TableUse | None = None
    olds: bool = False

    def want_olds(self) -> None:
        """Note that a reader needs the previous values; they come from above."""
        self.olds = True
        if self.parent is not None:
            self.parent.want_olds()
        for side in self.sides:
            side.want_olds()

    def wish_olds(self) -> None:
        """Note that a reader needs the previous values where Kafka Streams would know them."""
        if self.knows_olds():
            self.want_olds()

    def knows_olds(self) -> bool:
        """True if Kafka Streams would know the previous values without being asked for them."""
        origin = self
        while origin.parent is not None and not origin.kept:
            origin = origin.parent
        return not origin.unnamed
