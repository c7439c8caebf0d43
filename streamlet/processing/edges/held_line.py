"""The words of one writer to a reader, and its records that wait for a decision.

A copy of a head counts as much as the head: it tells what is true. So what others wrote with one is
a record more, and no record less. The number of its commit decides when a record counts, and what
was processed is known by the number and the offset. A sequence tells only a delivery that came
twice, which brings the same bytes with it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from itertools import groupby

import attrs

from streamlet.coordinator.commit_packing import WriterMark
from streamlet.processing.edges.held_records import Head
from streamlet.processing.edges.held_run import HeldRun, leave_out_repeated

_NONE = WriterMark(0)


@attrs.define
class HeldLine:
    """The facts known of one writer.

    Attributes:
        period: the highest one that is known to have begun.
        accepted: its last commit that is known to be accepted.
        mark: the period, the commit and the offset up to which it was processed.
        ordered: whether all below that offset was, of whatever commit.
        begun: the period and the commit before which all was processed when the reader began.
        head: the last one that is known to be the writer's.
        held: what is undecided: by period as they came, and within one by number.
    """

    period: int = 0
    accepted: int = 0
    mark: WriterMark = _NONE
    head: bytes = b""
    held: deque[HeldRun] = attrs.field(factory=deque)
    ordered: bool = False
    begun: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, mark: WriterMark, *, ordered: bool) -> HeldLine:
        """The line of a reader that begins at a commit with this mark.

        All commits before that of the mark were processed. What a delivery brings of them from now
        on, however late, is a repetition.
        """
        begun = mark.period, mark.number
        return cls(mark.period, max(mark.number - 1, 0), mark, ordered=ordered, begun=begun)

    def word(
        self, head: Head, base: tuple[int, int], run: HeldRun | None, dropped: Counter[str]
    ) -> Iterator[HeldRun]:
        """Take a word of the writer; what it decides, in order.

        Args:
            head: of the word.
            base: of a marker.
            run: the records with this head; None: it is a marker.
            dropped: counts what does not count, by kind.
        """
        if head.period < self.period:
            _drop(run, "zombie", dropped)
            return
        if head.period > self.period and not self._opens(head):
            self._hold(run)
            return
        if head.period > self.period:
            yield from self._begin(head, base, dropped)
        if head.accepted > self.accepted:
            self.accepted = head.accepted
            yield from self._decided(dropped)
        if head.number <= self.accepted:  # all of that commit came before what told so
            _drop(run, "replay", dropped)
        else:
            self._hold(run)

    @property
    def first(self) -> int | None:
        """The lowest offset of what is held; None: nothing is."""
        return min((run.offsets[0] for run in self.held), default=None)

    def _opens(self, head: Head) -> bool:
        """True if a period begins; else a marker that must come does not say so yet."""
        return head.marker or head.accepted > 0 or not (self.period or self.held)

    def _begin(self, head: Head, base: tuple[int, int], dropped: Counter[str]) -> Iterator[HeldRun]:
        """Take what is held of commits up to the base, drop the rest of earlier periods."""
        held, self.held = self.held, deque()
        taken = []
        for run in held:
            if run.period >= head.period:
                self.held.append(run)
            elif run.period == base[0] and run.number <= base[1]:
                taken.append(run)
            else:
                _drop(run, "uncommitted", dropped)
        yield from self._taken(taken, dropped)
        self.period, self.accepted = head.period, 0

    def _decided(self, dropped: Counter[str]) -> Iterator[HeldRun]:
        """Take what is held of commits of the present period that were accepted."""
        held, taken = self.held, []
        while held and held[0].period == self.period and held[0].number <= self.accepted:
            taken.append(held.popleft())
        yield from self._taken(taken, dropped)

    def _taken(self, runs: list[HeldRun], dropped: Counter[str]) -> Iterator[HeldRun]:
        """Decide that these runs count, but for what came twice or was processed before."""
        for (period, number), commit in groupby(runs, key=lambda run: (run.period, run.number)):
            parts = [*commit]
            before = sum(map(len, parts))
            leave_out_repeated(parts)
            processed = self.mark.processed(period, number, ordered=self.ordered)
            for run in parts:
                run.from_offset(processed)
                run.decided = True
            dropped["replay"] += before - sum(map(len, parts))
            yield from (run for run in parts if len(run))

    def _hold(self, run: HeldRun | None) -> None:
        """Put a run behind those of the same and of earlier commits of its period."""
        if run is None:
            return
        held, at = self.held, len(self.held)
        while at and held[at - 1].period == run.period and held[at - 1].number > run.number:
            at -= 1
        if at and held[at - 1].joins(run):
            held[at - 1].extend(run)
        else:
            held.insert(at, run)


def _drop(run: HeldRun | None, kind: str, dropped: Counter[str]) -> None:
    if run is not None:
        dropped[kind] += len(run)
        run.clear()
