"""Bounds of the prefixes of records that wait: who may write to a topic can forge them.

A number beyond these would end a task's period for its readers, or have them keep an entry for a
writer that there is not.
"""

from __future__ import annotations

from streamlet.processing.edges.held_records import Head

#: Writers of one topic that a reader remembers at most.
MOST_WRITERS = 1 << 17
#: How far the clocks of two hosts may differ, s.
CLOCKS_S = 86_400
#: Periods of one task that may pass unseen, where it did not begin to count again.
UNSEEN = 1 << 16


class PrefixBounds:
    """Bounds of what the tasks that write to one topic can say.

    Args:
        subtopologies: those of these tasks.
        now_s: the time, s since the epoch.
    """

    def __init__(self, subtopologies: frozenset[int], now_s: int) -> None:
        self._subtopologies = subtopologies
        self._now_s = now_s
        #: The time of the first word, ms, as the loop counts it.
        self._began_ms: int | None = None

    def allow(self, head: Head, known: int | None, writers: int, now_ms: int) -> bool:
        """True if a task can have written this.

        Args:
            head: of a record or marker.
            known: the writer's period as far as known; None: it is a new writer.
            writers: those that are known.
            now_ms: the time of the step.
        """
        if self._began_ms is None:
            self._began_ms = now_ms
        if known is None:
            of_topic = head.writer >> 32 in self._subtopologies
            if not of_topic or writers >= MOST_WRITERS:
                return False
        elif head.period <= known:
            return True
        born = head.period >> 32
        if born > self._now_s + (now_ms - self._began_ms) // 1000 + CLOCKS_S:
            return False
        return not known or born != known >> 32 or head.period - known <= UNSEEN
