"""The node in which the branches of a fork meet again, so that records keep their order there.

Branches that keep nothing get a whole batch each. What they send to the node is gathered, and sent
on in the order of the records that it stems from, as if they had come one by one: by their offsets,
and for one record in the order of the branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import lt
from typing import TypeAlias

from streamlet.batch import Batch, joined

#: Takes a batch through a node and all that is behind it; stops where others may go on.
Step: TypeAlias = Callable[[Batch], Iterator[None]]


class Meeting:
    """The step of a node, before which batches may be gathered.

    Args:
        through: the step itself.
    """

    def __init__(self, through: Step) -> None:
        self._through = through
        self._gathered: list[Batch] | None = None

    def step(self, batch: Batch) -> Iterator[None]:
        """Go through the node, or wait before it for the other branches."""
        if self._gathered is None:
            return self._through(batch)
        self._gathered.append(batch)
        return iter(())

    def of_branches(self, whole: Step, single: Step) -> Step:
        """The step behind a fork.

        Args:
            whole: takes a batch through the branches, one after the other.
            single: takes its records through them one by one.
        """

        def forward(batch: Batch) -> Iterator[None]:
            # Offsets tell records apart, but for those that were made of one record above.
            if len(batch) == 1 or not _rising(batch.offsets):
                return single(batch)
            return whole(batch) if self._gathered is not None else self._in_order(whole(batch))

        return forward

    def _in_order(self, branches: Iterator[None]) -> Iterator[None]:
        gathered = self._gathered = []
        try:
            yield from branches
        finally:
            self._gathered = None
        if gathered:
            yield from self._through(by_offset(gathered))


def _rising(offsets: Sequence[int]) -> bool:
    """True if no two are equal."""
    return isinstance(offsets, range) or all(map(lt, offsets, offsets[1:]))


def by_offset(batches: list[Batch]) -> Batch:
    """The records of all batches by their offsets; those of one offset in the order given."""
    if len(batches) == 1:
        return batches[0]
    whole = joined(batches)
    return whole.pick(sorted(range(len(whole)), key=whole.offsets.__getitem__))
