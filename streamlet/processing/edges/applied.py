"""The origins that were applied of each edge: what is a repetition, and what was leapt over.

A writer goes through its input in order, so nothing honest lies between two records of an edge that
follow each other. A record there, behind what was applied before the leap, proves that the record
behind it was forged, or that a function answers differently each time. It was not applied, so it
counts, and so do those behind it.
"""

from __future__ import annotations

from collections.abc import Collection

from streamlet import origins
from streamlet.coordinator.commit_metadata import InputNote
from streamlet.origins import INCARNATION_TIMES, MOST_LEAPS
from streamlet.processing.edges.records import INDEX_BITS
from streamlet.topology.edges import MOST_SOURCES

#: A step of more than so many input records is remembered as a leap, ...
LEAP = origins.LEAP << INDEX_BITS
#: ... of more than so many also in commits: most edges have none.
LONG_LEAP = (1 << 16) << INDEX_BITS
#: A step of more than so many input records is none that an input topic allows for.
FARTHEST = origins.FARTHEST << INDEX_BITS
#: The highest origin that an edge may begin with.
HIGHEST = origins.HIGHEST << INDEX_BITS


class Applied:
    """Highest origin applied of each edge up to some record; changes with ``add`` and ``skip``.

    Args:
        note: of the commit that it goes on from.
        sources: those that lead to the topic, as far as known; edges of others make room.
    """

    def __init__(self, note: InputNote, sources: Collection[int] = ()) -> None:
        self.high = dict(note.applied)
        self.loose = set(note.loose)
        self.open = note.open
        self._leaps = {edge: list(leaps) for edge, leaps in note.leaps.items()}
        self._sources = sources
        #: Incarnations with one record, beside the one that they end with their next.
        self._young = {edge for edge in self.high if any(_earlier(one, edge) for one in self.high)}

    @property
    def young(self) -> bool:
        """True if there is an incarnation that has one record only."""
        return bool(self._young)

    def note(self, incarnation: int) -> InputNote:
        """The note of a commit."""
        long = {
            edge: kept
            for edge, leaps in self._leaps.items()
            if (kept := tuple(one for one in leaps if one[0] and one[1] - one[0] > LONG_LEAP))
        }
        return InputNote(incarnation, dict(self.high), frozenset(self.loose), self.open, long)

    def copy(self) -> Applied:
        """Another one that is as this one is now."""
        found = Applied(self.note(0), self._sources)
        found._leaps = {edge: list(leaps) for edge, leaps in self._leaps.items()}
        found._young = set(self._young)
        return found

    def skip(self) -> None:
        """Expect each edge to go on with whatever comes next."""
        self.open = True
        self.loose = set(self.high)

    def may_be(self, edge: int, origin: int) -> bool:
        """False if no honest record can have this origin now."""
        high = self.high.get(edge)
        return origin <= (HIGHEST if high is None else high + FARTHEST)

    def leapt_over(self, edge: int, origin: int, previous: int) -> bool:
        """True for a record in a leap that follows on what was applied before it.

        ``origin`` with its lowest bit set.
        """
        return any(
            below < origin < above and previous <= below
            for below, above in self._leaps.get(edge, ())
        )

    def is_over(self, edge: int) -> bool:
        """True for an earlier incarnation of a known source: what a zombie still writes."""
        return any(_earlier(edge, one) and one not in self._young for one in self.high)

    def add(self, edge: int, origin: int) -> None:
        """Note a record that counts; ``origin`` with its lowest bit set."""
        high = self.high.get(edge, 0)
        if origin < high:
            self._leaps[edge] = [
                (origin if below < origin < above else below, above)
                for below, above in self._leaps[edge]
            ]
            return
        if not high and not self._begins(edge, origin):
            return
        if high:
            if edge in self._young:
                self._forget_earlier(edge)
            if origin - high > LEAP:
                self._leaps.setdefault(edge, []).append((high, origin))
                del self._leaps[edge][:-MOST_LEAPS]
        self.high[edge] = origin
        self.loose.discard(edge)

    def _begins(self, edge: int, origin: int) -> bool:
        """Make room for an edge; False if there is none."""
        earlier = [one for one in self.high if one >> 32 == edge >> 32]
        for one in [one for one in earlier if one in self._young]:
            self._forget(one)
            earlier.remove(one)
        if earlier and edge & 0xFFFFFFFF not in INCARNATION_TIMES:
            self._young.add(edge)
        elif earlier:
            self._forget_earlier(edge)
        elif len(self.high) >= MOST_SOURCES and not self._made_room():
            return False
        if not self.open and origin > LEAP:
            self._leaps[edge] = [(0, origin)]
        return True

    def _made_room(self) -> bool:
        strange = [one for one in self.high if one >> 32 not in self._sources]
        for one in strange:
            self._forget(one)
        return bool(strange)

    def _forget_earlier(self, edge: int) -> None:
        for one in [one for one in self.high if _earlier(one, edge)]:
            self._forget(one)
        self._young.discard(edge)

    def _forget(self, edge: int) -> None:
        del self.high[edge]
        self._leaps.pop(edge, None)
        self.loose.discard(edge)
        self._young.discard(edge)


def _earlier(one: int, edge: int) -> bool:
    """True for an earlier incarnation of the same source."""
    return one < edge and one >> 32 == edge >> 32
