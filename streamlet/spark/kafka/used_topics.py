"""The topics of a query, and which of them it only writes."""

from __future__ import annotations

import attrs


@attrs.frozen
class UsedTopics:
    """The topics that a query reads and writes: what tells which right it lacks."""

    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()

    @property
    def all(self) -> frozenset[str]:
        """The topics that it reads or writes."""
        return self.read | self.written

    @property
    def only_written(self) -> frozenset[str]:
        """The written topics that it does not read."""
        return self.written - self.read
