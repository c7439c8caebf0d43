"""Counters of the nodes of a task: records, and the time that operators took.

Time is taken by the batch; of small batches every sixteenth counts for those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs

from streamlet.batch import Batch

#: Below so many records a batch is small, and so many of these are timed together.
SMALL = 8
EVERY = 16


@attrs.define(eq=False)
class NodeMeter:
    """The counters of one node; they count once ``time_ns`` is set."""

    time_ns: Callable[[], int] | None = None
    records: int = 0
    ns: int = 0
    _small: int = 0

    def whole(self, process: Callable[[Batch], Batch]) -> Callable[[Batch], Batch]:
        """An operator that is counted."""

        def counted(batch: Batch) -> Batch:
            time_ns = self.time_ns
            if time_ns is None:
                return process(batch)
            count, weight = len(batch), 1
            self.records += count
            if count < SMALL:
                self._small += 1
                if self._small % EVERY:
                    return process(batch)
                weight = EVERY
            began = time_ns()
            try:
                return process(batch)
            finally:
                self.ns += (time_ns() - began) * weight

        return counted

    def in_parts(
        self, process: Callable[[Batch], Iterator[Batch | None]]
    ) -> Callable[[Batch], Iterator[Batch | None]]:
        """An operator that gives its output in parts, counted."""

        def counted(batch: Batch) -> Iterator[Batch | None]:
            time_ns = self.time_ns
            if time_ns is None:
                yield from process(batch)
                return
            self.records += len(batch)
            parts = process(batch)
            while True:
                began = time_ns()
                try:
                    part = next(parts)
                except StopIteration:
                    return
                finally:
                    self.ns += time_ns() - began
                yield part

        return counted

    def together(
        self, process: Callable[[Sequence[Batch]], list[Batch] | None]
    ) -> Callable[[Sequence[Batch]], list[Batch] | None]:
        """An operator of batches of several partitions, counted; those that fail come once more."""

        def counted(batches: Sequence[Batch]) -> list[Batch] | None:
            time_ns = self.time_ns
            if time_ns is None:
                return process(batches)
            began = time_ns()
            out = process(batches)
            self.ns += time_ns() - began
            self.records += sum(map(len, batches)) if out is not None else 0
            return out

        return counted

    def given(
        self, step: Callable[[Batch], Iterator[None]], times: int = 1
    ) -> Callable[[Batch], Iterator[None]]:
        """A step whose records are counted; ``times`` -1: they come once more, and count once."""

        def counted(batch: Batch) -> Iterator[None]:
            if self.time_ns is not None:
                self.records += times * len(batch)
            return step(batch)

        return counted


@attrs.define(eq=False)
class NodeMeters:
    """The counters of a task's nodes by name, and its punctuators' calls."""

    nodes: dict[str, NodeMeter] = attrs.field(factory=dict)
    #: What tells how often punctuators of an operator were called.
    punctuations: list[Callable[[], int]] = attrs.field(factory=list)

    def of(self, node: str) -> NodeMeter:
        """The counters of a node."""
        return self.nodes.setdefault(node, NodeMeter())

    def begin(self, time_ns: Callable[[], int]) -> None:
        """Count from now on."""
        for one in self.nodes.values():
            one.time_ns = time_ns

    @property
    def punctuated(self) -> int:
        """The calls of punctuators."""
        return sum(count() for count in self.punctuations)
