"""The order in which Java prints the names of a topology, down to the order of its hash tables.

Kafka Streams keeps the parents and children of a node in sorted sets, but it sorts them while it
still counts the ways down from each node, and it goes through the nodes in the order of a
``HashMap``. What it prints therefore hangs on the hash codes of the names
(``InternalTopologyBuilder.describeSubtopology`` of Kafka Streams 4.1.1).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence

import attrs

_SMALLEST_TABLE = 16
_FULL = 0.75


@attrs.frozen
class PrintedOrder:
    """The printed order of one subtopology.

    - ``nodes``: every node, those with the most ways down first
    - ``parents``, ``children``: of each node, in the order in which they are listed
    """

    nodes: tuple[str, ...]
    parents: Mapping[str, tuple[str, ...]]
    children: Mapping[str, tuple[str, ...]]


def printed_order(parents: Mapping[str, Sequence[str]]) -> PrintedOrder:
    """The order of nodes that are given with their parents, in the order of their creation.

    A node is put into a list by the number of ways down that are known at that moment, then by
    name; the numbers grow afterwards, so that the list need not be sorted by them in the end.
    """
    ways = dict.fromkeys(parents, 1)
    above: dict[str, list[str]] = {name: [] for name in parents}
    below: dict[str, list[str]] = {name: [] for name in parents}

    def rank(name: str) -> tuple[int, str]:
        return -ways[name], name

    def count(name: str, more: int) -> None:
        ways[name] += more
        for parent in above[name]:
            count(parent, more)

    for name in hash_set_order(parents):
        for parent in dict.fromkeys(parents[name]):
            insort(above[name], parent, key=rank)
            insort(below[parent], name, key=rank)
            count(parent, ways[name])
    return PrintedOrder(
        tuple(sorted(parents, key=rank)),
        {name: tuple(names) for name, names in above.items()},
        {name: tuple(names) for name, names in below.items()},
    )


def hash_set_order(names: Iterable[str], *, copied: bool = False) -> list[str]:
    """Names in the order in which Java's ``HashSet`` gives them.

    A set that was filled name by name doubles its table when more than three quarters are used; a
    ``copied`` one was made from another collection and chose its table by the size of that.
    """
    unique = list(dict.fromkeys(names))
    wanted = int(len(unique) / _FULL) + 1 if copied else len(unique) / _FULL
    table = _SMALLEST_TABLE
    while table < wanted:
        table *= 2
    return sorted(unique, key=lambda name: _spread(string_hash(name)) & (table - 1))


def string_hash(text: str) -> int:
    """Java's ``String.hashCode`` as an unsigned number of 32 bits."""
    units = memoryview(text.encode("utf-16-le")).cast("H")
    number = 0
    for unit in units:
        number = (31 * number + unit) & 0xFFFFFFFF
    return number


def _spread(number: int) -> int:
    """The number by which a ``HashMap`` chooses the bucket of a hash code."""
    return number ^ (number >> 16)
