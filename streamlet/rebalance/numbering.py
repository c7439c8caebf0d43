"""Compares the subtopology numbers of two programs of one application; pure.

Members name a task by the number of its subtopology and its partition. The numbers follow from the
order in which a program declares its sources, so a new source in front shifts them: the same name
then means another task to each program, and one input partition would have two owners. So all
members of a group have to agree on the number of each topic that several of them read, and of each
store that several of them keep, and on what such a store holds. Two programs that have no topic and
no store in common are two applications under one id. Everything else may differ between versions of
a program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence

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
        """The move as the other member sees it."""
        return Moved(self.name, self.there, self.here)


@attrs.frozen
class Difference:
    """The reason why two programs cannot run in one group, for each of the two sides."""

    here: str
    there: str


#: The difference between two applications under one id.
NOTHING_SHARED = "they have no topic and no store in common with it"
#: The reason why a member of an earlier version cannot join.
UNREAD = (
    "records in the repartition topics wait for the commit of the task that wrote them, which this "
    "version of streamlet cannot read"
)
#: What is said of a store that both keep and only one could read.
TYPES_DIFFER = "has other types there than here"
#: What begins the names of a store's types in a subtopology's belongings: as versions before marks
#: noted them, and as ``serdes.marks`` where that is another text. Alone: there are such marks.
TYPES, MARKS = "types of ", "marks of "


def difference(ours: Sequence[Sequence[str]], theirs: Sequence[bytes]) -> Difference | None:
    """The reason why two programs cannot run in one group; ``theirs`` as ``packed`` made it.

    None if they can, or if the other member does not say what it has.
    """
    moves = moved(ours, theirs)
    if moves:
        return Difference(described(moves), described([one.seen_from_there for one in moves]))
    known = {one for raw in theirs for one in _split(raw)}
    if retyped := _retyped(ours, known):
        return Difference(retyped, retyped)
    named = [name for names in ours for name in names if name != MARKS]
    if known and named and not any(_hash(name) in known for name in named):
        return Difference(NOTHING_SHARED, NOTHING_SHARED)
    return None


def _retyped(ours: Sequence[Sequence[str]], known: Collection[bytes]) -> str:
    """The stores that both keep, with other types; empty if there are none.

    ``known`` are the hashes of all names of the other member.
    """
    by_marks = _hash(MARKS) in known
    found = [
        f"store {store} {TYPES_DIFFER} ({types})"
        for names in ours
        for store, (name, types) in _types_in(names, by_marks).items()
        if _hash(name) not in known and _hash(f"store {store}") in known
    ]
    return "; ".join(found[:_MOST])


def _types_in(names: Iterable[str], by_marks: bool) -> dict[str, tuple[str, str]]:
    """The name of each store's types among belongings, and the types."""
    found: dict[str, tuple[str, str]] = {}
    for prefix in (TYPES, MARKS) if by_marks else (TYPES,):
        for name in names:
            if name.startswith(prefix) and name != MARKS:
                store, types = name.removeprefix(prefix).split(": ", 1)
                found[store] = name, types
    return found


def packed(belongings: Iterable[Iterable[str]]) -> tuple[bytes, ...]:
    """The names of each subtopology as short hashes, as they travel in a subscription."""
    return tuple(b"".join(sorted(map(_hash, names))) for names in belongings)


def moved(ours: Sequence[Sequence[str]], theirs: Sequence[bytes]) -> tuple[Moved, ...]:
    """The topics and stores of both programs with different numbers; ``theirs`` is ``packed``.

    Nothing if the other member does not say what it has.
    """
    there = {one: number for number, raw in enumerate(theirs) for one in _split(raw)}
    found = (
        Moved(name, number, there.get(_hash(name), number))
        for number, names in enumerate(ours)
        for name in names
        if not name.startswith((TYPES, MARKS))
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


def refusal(difference: str, members: str = "") -> str:
    """The error of an instance that does not fit the ``members`` that run.

    ``difference`` is seen from here, as in a ``Difference``.
    """
    if difference == NOTHING_SHARED:
        return (
            f"the instances that run{members} are of another application under the same id: "
            f"{difference}. This instance does not join; nothing was changed. Give one of the two "
            "applications another id"
        )
    if difference == UNREAD:
        return (
            f"{difference}. This instance does not join; nothing was changed. Run the version of "
            "the others; or set repartition.exact to false in all of them, one after the other, "
            "wait until nothing in the repartition topics is unread, and start this version then"
        )
    if difference.startswith("processing.guarantee"):
        return difference
    if TYPES_DIFFER in difference:
        return (
            f"the state has other types here than in the instances that run{members}: "
            f"{difference}. Neither could read the other's state, so this instance does not join; "
            "nothing was changed. Give the changed store another name; or give the new topology "
            "another application id"
        )
    return (
        f"the subtopologies have other numbers here than in the instances that run{members}: "
        f"{difference}. Both would take the same number for different tasks, so this instance does "
        "not join; nothing was changed. Stop all instances and then start the new topology, which "
        "finds its state under the new numbers; or declare new sources behind the others, so that "
        "the numbers stay; or give the new topology another application id"
    )


def _split(raw: bytes) -> list[bytes]:
    """The hashes in what ``packed`` made of one subtopology."""
    return [raw[at : at + _HASH_BYTES] for at in range(0, len(raw), _HASH_BYTES)]


def _hash(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=_HASH_BYTES).digest()
