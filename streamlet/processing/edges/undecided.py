"""The bound of what the tasks of a worker wrote and what is not decided yet.

Readers hold it until it is. So the bound is one of the worker, however many tasks it runs. A task
that is amid a batch and waits to try a record again does not count: others go on beside it.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

#: Records and bytes that may be undecided before a task begins no further batch, ...
MOST_RECORDS = 200_000
MOST_BYTES = 32 << 20
#: ... and the share of these at which a commit is asked for at once.
SHARE = 4


@attrs.define
class Undecided:
    """Records and bytes that wait for a commit of a task of this worker."""

    records: int = 0
    size: int = 0

    def add(self, records: int, size: int) -> None:
        """Take what was written, or, below zero, what was decided."""
        self.records += records
        self.size += size

    def count(self, tasks: Iterable[tuple[int, int]]) -> None:
        """Recount undecided records by task; lost tasks no longer count."""
        self.records = self.size = 0
        for records, size in tasks:
            self.add(records, size)

    @property
    def full(self) -> bool:
        """True if no batch is to begin that would add to it."""
        return self.records > MOST_RECORDS or self.size > MOST_BYTES

    @property
    def much(self) -> bool:
        """True if a commit is to begin at once."""
        return self.records > MOST_RECORDS // SHARE or self.size > MOST_BYTES // SHARE
