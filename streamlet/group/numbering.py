"""Compares the subtopology numbers of two programs of one application; pure.

Members name a task by the number of its subtopology and its partition. The numbers follow from the
order in which a program declares its sources, so a new source in front shifts them: the same name
then means another task to each program, and one input partition would have two owners. So all
members of a group have to agree on the number of each topic that several of them read, and of each
store that several of them keep. Everything else may differ between versions of a program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import attrs

#: Bytes that stand for a name in subscriptions.
_HASH_BYTES = 4
#: How many names an error lists.
_MOST = 3


@attrs.frozen
class Moved:
    """A topic or store with two numbers: in the topology here, and in another member's."""

    name: str
    here: int
    there: int

    @property
    def seen_from_there(self) -> Moved:
        """The same for the other member."""
        return Moved(self.name, self.there, self.here)


def packed(belongings: Iterable[Iterable[str]]) -> tuple[bytes, ...]:
    """The names of each subtopology as short hashes, as they travel in a subscription."""
    return tuple(b"".join(sorted(map(_hash, names))) for names in belongings)


def moved(ours: Sequence[Sequence[str]], theirs: Sequence[bytes]) -> tuple[Moved, ...]:
    """What both programs have, under different numbers; ``theirs`` as ``packed`` made it.

    Nothing if the other member does not say what it has.
    """
    there = {
        raw[at : at + _HASH_BYTES]: number
        for number, raw in enumerate(theirs)
        for at in range(0, len(raw), _HASH_BYTES)
    }
    found = (
        Moved(name, number, there.get(_hash(name), number))
        for number, names in enumerate(ours)
        for name in names
    )
    return tuple(one for one in found if one.here != one.there)


def described(moves: Sequence[Moved]) -> str:
    """The moves as text, the first few by name."""
    some = [
        f"{one.name} belongs to subtopology {one.here} here and to {one.there} there"
        for one in moves[:_MOST]
    ]
    more = f", and {len(moves) - _MOST} more" if len(moves) > _MOST else ""
    return "; ".join(some) + more


def refusal(moves: str, members: str = "") -> str:
    """The error of an instance whose numbers are not those of the ``members`` that run."""
    return (
        f"the subtopologies have other numbers here than in the instances that run{members}: "
        f"{moves}. Both would take the same number for different tasks, so this instance does not "
        "join; nothing was changed. Stop all instances and then start the new topology, which "
        "finds its state under the new numbers; or declare new sources behind the others, so that "
        "the numbers stay; or give the new topology another application id"
    )


def _hash(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=_HASH_BYTES).digest()
