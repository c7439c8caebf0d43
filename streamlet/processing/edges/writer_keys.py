"""The keys with which tasks sign what they tell the readers of their records.

A key is beside the committed positions of its task, as long as the epochs of that count on
(``born``). It is looked up once, off the way of records, by one request for all writers that are
not known yet. A word is one that the task wrote if it is signed with the key of its life. An
earlier life of the task has no key any more: its words are believed, and end with the first one of
the later life.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import attrs

from streamlet.processing.edges.held_records import Head

#: Pause between two questions, and between two about one writer, ms.
LEAST_MS, PAUSE_MS = 20, 200
#: A coordinator that has lost the group may answer for so long as if it had it, ms: what an answer
#: does not know is asked again until then.
STALE_MS = 3_000


@attrs.frozen
class WriterKey:
    """The key of a task, and since when its epochs count; 0: no commit says so."""

    born: int = 0
    key: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen
class _Answer:
    """The answer of the group about a task; None: there is no such task. ``asked_ms``: when."""

    found: WriterKey | None
    asked_ms: int


class WriterKeys:
    """The keys that a worker knows, for all its readers."""

    def __init__(self) -> None:
        self._known: dict[int, _Answer] = {}
        self._wanted: set[int] = set()
        #: Those that are asked for before a word of them came.
        self._early: set[int] = set()
        #: When each of those asked for may be asked for again, and any at all, ms.
        self._again_ms: dict[int, int] = {}
        self._next_ms = 0
        #: Rises with each answer.
        self.version = 0

    def judge(self, head: Head, base: tuple[int, int], since_ms: int) -> bool | None:
        """True if that task wrote this; None if the group is to be asked before it is known.

        Args:
            head: of a record or marker.
            base: of a marker; zeros for a record.
            since_ms: when it was read.
        """
        known = self._known.get(head.writer)
        if known is None:
            self._wanted.add(head.writer)
            return None
        if known.found is None:
            return False
        born, of_group = head.period >> 32, known.found.born
        if born <= of_group:
            return born < of_group or head.is_signed_with(known.found.key, base)
        if of_group and known.asked_ms >= since_ms + STALE_MS:
            return False
        self._wanted.add(head.writer)
        return None

    def expect(self, writers: Iterable[int]) -> None:
        """Have the group asked for those that are not known, since words of them are to come."""
        unknown = set(writers) - self._known.keys() - self._again_ms.keys()
        self._early |= unknown
        self._wanted |= unknown

    def claimed(self, writer: int, key: WriterKey) -> None:
        """Take the key of a task of this worker, whose claim was accepted."""
        if self.known(writer) != key:
            self.answer({writer: key}, 0)

    def known(self, writer: int) -> WriterKey | None:
        """The key of a writer; None: it is not known, or there is no such task."""
        found = self._known.get(writer)
        return None if found is None else found.found

    def to_ask(self, now_ms: int) -> Collection[int]:
        """The writers that the group is to be asked for now."""
        if not self._wanted or now_ms < self._next_ms:
            return ()
        asked = {one for one in self._wanted if now_ms >= self._again_ms.get(one, 0)}
        if asked:
            self._next_ms = now_ms + LEAST_MS
            self._wanted -= asked
            self._again_ms |= dict.fromkeys(asked, now_ms + PAUSE_MS)
        return asked

    def answer(self, found: Mapping[int, WriterKey | None], asked_ms: int) -> None:
        """Take the group's answer about the writers that it was asked for."""
        for writer, one in found.items():
            known = self.known(writer)
            if known is None or one is None or one.born >= known.born:
                self._known[writer] = _Answer(one, asked_ms)
            if writer in self._early:  # its first word may be of a commit since
                self._early.discard(writer)
                self._again_ms.pop(writer, None)
        self.version += 1

    def ask_again(self, writers: Collection[int]) -> None:
        """Ask once more for these, since there was no answer."""
        self._wanted.update(writers)
