"""The reader of one partition of a held edge."""

from __future__ import annotations

from collections import deque

from tests.simulation.held.rules import NO_PERIOD, Notes, Period, Place, Rules, Word

_NONE = (NO_PERIOD, 0, 0)


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
        self._processed = dict(notes) if notes and not isinstance(notes, str) else {}
        self._seen = {writer: period for writer, (period, _, _) in self._processed.items()}
        self._accepted: dict[int, int] = {}
        self._held: list[tuple[int, Word]] = []
        self._taken: deque[tuple[int, Word]] = deque()
        #: The first offset of commits that had repetitions, until all of them is processed.
        self._again: dict[tuple[int, Place], int] = {}

    def take(self, word: Word) -> None:
        """Take the next word of the log."""
        offset, self.read = self.read, self.read + 1
        writer, seen = word.writer, self._seen.get(word.writer, NO_PERIOD)
        if not word.signed and self._rules.signed:
            return
        if word.period < seen and self._rules.epoch:
            return
        if word.period > seen and self._begins(word):
            seen = word.period
        if word.period == seen:
            self._accepted[writer] = max(self._accepted.get(writer, 0), word.accepted)
            self._decide(writer, (seen, self._accepted[writer]))
            if word.number <= self._accepted[writer]:
                return  # all of that commit came before
        if word.base is None:
            self._held.append((offset, word))
            if not self._rules.wait:
                self._decide(writer, (word.period, word.number))

    def skip(self, offset: int) -> None:
        """Go on behind words that are deleted."""
        self.read = offset

    def process(self) -> Word | None:
        """The next record that was taken, which then counts as processed."""
        if not self._taken:
            return None
        offset, word = self._taken.popleft()
        self._processed[word.writer] = (word.period, word.number, offset + 1)
        return word

    @property
    def place(self) -> int:
        """That of the record which was processed last."""
        return 0

    @property
    def position(self) -> int:
        """The position of a commit."""
        if not self._rules.position:
            return self.read
        offsets = [offset for offset, _ in (*self._held, *self._taken)]
        left = {_commit_of(word) for _, word in self._taken}
        offsets += [first for commit, first in self._again.items() if commit in left]
        return min(offsets, default=self.read)

    @property
    def notes(self) -> Notes:
        """The notes of a commit."""
        if not self._rules.marks:
            return {writer: (seen, 0, 0) for writer, seen in self._seen.items()}
        found = dict.fromkeys(self._seen, _NONE)
        waiting = self._taken if self._rules.processed else ()
        periods = self._seen | {word.writer: word.period for _, word in reversed(waiting)}
        for writer, period in periods.items():
            done = self._processed.get(writer, _NONE)
            if not self._rules.processed:
                later = [(w.number, at + 1) for at, w in self._taken if w.writer == writer]
                done = (done[0], *max(later, default=done[1:]))
            found[writer] = done if done[0] == period else (period, 0, 0)
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
        self._seen[writer] = word.period
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
        period, most = upto
        decided = [
            (offset, word)
            for offset, word in self._held
            if word.writer == writer and word.period == period and word.number <= most
        ]
        self._held = [one for one in self._held if one not in decided]
        if self._rules.numbers:
            decided.sort(key=lambda one: one[1].number)
        met: dict[object, int] = {}
        for offset, word in decided:
            same = word.number, word.sequence, word.value if self._rules.contents else None
            if same in met:
                first = min(at for at, one in decided if one.number == word.number)
                self._again[_commit_of(word)] = first
                continue
            met[same] = offset
            if not self._known(offset, word):
                self._taken.append((offset, word))

    def _known(self, offset: int, word: Word) -> bool:
        """True if it was processed before the start."""
        period, number, behind = self._processed.get(word.writer, _NONE)
        if period != word.period:
            return False
        return word.number < number or (word.number == number and offset < behind)


def _commit_of(word: Word) -> tuple[int, Place]:
    return word.writer, (word.period, word.number)
