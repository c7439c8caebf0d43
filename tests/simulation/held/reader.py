"""The reader of one partition of a held edge."""

from __future__ import annotations

from collections import deque

from tests.simulation.held.rules import NO_PERIOD, Notes, Period, Place, Rules, Word


class Reader:
    """Decides which words count, and when.

    Args:
        rules: that it goes by.
        position: where it begins.
        notes: of the commit with that position.
    """

    def __init__(self, rules: Rules, position: int = 0, notes: Notes = "") -> None:
        self._rules = rules
        self.read = position
        self._seen: dict[int, Period] = {}
        self._marks: dict[int, int] = {}
        self._accepted: dict[int, int] = {}
        self._processed: dict[int, tuple[Period, int]] = (
            dict(notes) if notes and not isinstance(notes, str) else {}
        )
        for writer, (period, mark) in self._processed.items():
            self._seen[writer], self._marks[writer] = period, mark
        self._held: list[tuple[int, Word]] = []
        self._taken: deque[tuple[int, Word]] = deque()

    def take(self, word: Word) -> None:
        """Take the next word of the log."""
        offset, self.read = self.read, self.read + 1
        writer, seen = word.writer, self._seen.get(word.writer, NO_PERIOD)
        if word.period < seen and self._rules.epoch:
            return
        if word.period > seen and self._begins(word):
            seen = word.period
        if word.period == seen:
            self._accepted[writer] = max(self._accepted.get(writer, 0), word.accepted)
            self._decide(writer, (seen, self._accepted[writer]))
        if word.base is None and word.sequence > self._mark(word):
            self._held.append((offset, word))
            if not self._rules.wait:
                self._decide(writer, (word.period, word.number))
            elif word.period == seen:
                self._decide(writer, (seen, self._accepted[writer]))

    def skip(self, offset: int) -> None:
        """Go on behind words that are deleted."""
        self.read = offset

    def process(self) -> Word | None:
        """The next record that was taken, which then counts as processed."""
        if not self._taken:
            return None
        _, word = self._taken.popleft()
        self._processed[word.writer] = (word.period, word.sequence)
        return word

    @property
    def position(self) -> int:
        """The position of a commit."""
        if not self._rules.position:
            return self.read
        offsets = [offset for offset, _ in (*self._held, *self._taken)]
        return min(offsets, default=self.read)

    @property
    def notes(self) -> Notes:
        """The notes of a commit."""
        if not self._rules.marks:
            return {writer: (seen, 0) for writer, seen in self._seen.items()}
        found = {writer: (seen, self._marks.get(writer, 0)) for writer, seen in self._seen.items()}
        if not self._rules.processed:
            return found
        for _, word in reversed(self._taken):
            period, mark = self._processed.get(word.writer, (NO_PERIOD, 0))
            found[word.writer] = word.period, mark if period == word.period else 0
        return found

    def held_of(self, writer: int) -> int:
        """How many records of a writer are held."""
        return sum(word.writer == writer for _, word in self._held)

    def _begins(self, word: Word) -> bool:
        """Go over to a higher period, if the word proves that the earlier ones are over."""
        writer, rules = word.writer, self._rules
        if word.base is not None:
            if rules.base:
                self._decide(writer, word.base)
            if rules.ended:
                self._end(writer, word.period)
        elif word.accepted or not rules.unproven:
            if not rules.unproven:
                self._decide(writer, (self._seen.get(writer, NO_PERIOD), 1 << 60))
            elif not rules.skipped:
                return False
            self._end(writer, word.period)
        elif writer in self._seen or self.held_of(writer):
            return False
        self._seen[writer], self._marks[writer] = word.period, 0
        self._accepted[writer] = 0
        return True

    def _end(self, writer: int, period: Period) -> None:
        """Drop what is held of periods before this one: it was not committed."""
        self._held = [
            (offset, word)
            for offset, word in self._held
            if word.writer != writer or word.period >= period
        ]

    def _decide(self, writer: int, upto: Place) -> None:
        """Take what is held up to an accepted commit."""
        rest = []
        known = upto[0] == self._seen.get(writer, NO_PERIOD)
        mark = self._marks.get(writer, 0) if known else 0
        for offset, word in self._held:
            if word.writer != writer or word.period != upto[0] or word.number > upto[1]:
                rest.append((offset, word))
            elif word.sequence > mark:
                self._taken.append((offset, word))
                mark = word.sequence
        self._held = rest
        if known:
            self._marks[writer] = mark

    def _mark(self, word: Word) -> int:
        seen = self._seen.get(word.writer, NO_PERIOD)
        return self._marks.get(word.writer, 0) if word.period == seen else 0
