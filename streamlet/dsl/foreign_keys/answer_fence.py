"""Finds answers of a task's former owner that were delivered behind those of its next one.

An owner that was frozen does not know that its task has another one, and may still send what it
had made before: answers to a join by foreign keys with rows that are older than those of answers
that are there already. The next owner went on where the last commit was, and answers again what
came since. So an answer whose epoch is lower than that of one before it says nothing new.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from streamlet.dsl.foreign_keys.wire import task_of


@attrs.frozen
class AnswerFence:
    """The newest owner of each task that answers, as far as its answers were read.

    It is not kept over a restart: until an answer of a newer owner comes, those of all pass.
    """

    #: The newest source of each task (``wire.source_of``), and the offset of its first
    #: answer. Those of no source, which an older version wrote, pass.
    _newest: dict[bytes, bytes] = attrs.field(factory=dict, init=False)
    _since: dict[bytes, int] = attrs.field(factory=lambda: {b"": 0}, init=False)

    def passing(self, sources: list[bytes], offsets: Sequence[int]) -> list[bool] | None:
        """Mask of the answers that are not out of date; None: none is.

        Offsets tell which of two was first: records of different keys may come in another order.
        """
        if self._since.keys() >= set(sources):
            return None
        return [self._passes(*one) for one in zip(sources, offsets, strict=False)]

    def _passes(self, source: bytes, offset: int) -> bool:
        if source in self._since:
            return True
        task = task_of(source)
        newest = self._newest.get(task, b"")
        if source < newest:
            return offset < self._since[newest]
        if newest:
            del self._since[newest]
        self._newest[task], self._since[source] = source, offset
        return True
