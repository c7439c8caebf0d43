"""Numbers of changelogs, packed into bytes and written in base 85, without their names; pure.

For each partition number two varints, it and how many changelogs follow, then two bytes, the bits
of an end and of a start, and then for each changelog 32 bits that stand for its topic's name and
these two numbers, each plus one: 0 where there is none. So a changelog takes some 10 characters,
whatever its name: in the text of a commit, and in the headers of its records.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterable, Mapping

from streamlet.bounded import whole
from streamlet.types import TopicPartition

#: What stands for a topic's name begins so until it is looked up: no name of a topic can.
NUMBERED = "#"
NAME_BITS = 32
_PARTITION_BITS = 31
#: No offset has more bits, with its one added.
_MOST_BITS = 65


@functools.cache
def number_of(topic: str) -> int:
    """The 32 bits that stand for the name of a topic."""
    digest = hashlib.blake2b(topic.encode(), digest_size=NAME_BITS // 8).digest()
    return int.from_bytes(digest, "big")


def same_numbers(topics: Iterable[str]) -> list[str]:
    """Topics whose names have the number of another one of these, in order."""
    by_number: dict[int, list[str]] = {}
    for topic in topics:
        by_number.setdefault(number_of(topic), []).append(topic)
    return sorted(name for names in by_number.values() if len(names) > 1 for name in names)


def pack_logs(ends: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int]) -> str:
    """The ends and starts of changelogs."""
    by_partition: dict[int, list[TopicPartition]] = {}
    for tp in sorted({*ends, *starts}):
        by_partition.setdefault(tp.partition, []).append(tp)
    found = bytearray()
    for partition, changelogs in sorted(by_partition.items()):
        pairs = [(ends.get(tp, -1) + 1, starts.get(tp, -1) + 1) for tp in changelogs]
        end_bits, start_bits = (max(column).bit_length() for column in zip(*pairs, strict=True))
        packed = 0
        for tp, (end, start) in zip(changelogs, pairs, strict=True):
            packed = (packed << NAME_BITS | number_of(tp.topic)) << end_bits | end
            packed = packed << start_bits | start
        add_varint(found, partition)
        add_varint(found, len(pairs))
        found += bytes((end_bits, start_bits))
        bits = len(pairs) * (NAME_BITS + end_bits + start_bits)
        found += (packed << -bits % 8).to_bytes(-(-bits // 8), "big")
    return base64.b85encode(bytes(found)).decode()


def unpack_logs(text: str) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The ends and starts; topics are ``NUMBERED``: ``named`` finds their names.

    Raises:
        ValueError: the text is damaged, or a number of it cannot be.
    """
    data, at = base64.b85decode(text), 0
    ends: dict[TopicPartition, int] = {}
    starts: dict[TopicPartition, int] = {}
    while at < len(data):
        partition, at = varint(data, at, _PARTITION_BITS)
        count, at = varint(data, at, NAME_BITS)
        widths = data[at : at + 2]
        at += 2
        if len(widths) < 2 or max(widths) > _MOST_BITS or count > len(data):
            raise ValueError("offsets of changelogs are cut off, or have too many bits")
        end_bits, start_bits = widths
        bits = NAME_BITS + end_bits + start_bits
        size = -(-count * bits // 8)
        if at + size > len(data):
            raise ValueError("offsets of changelogs are cut off")
        rows = [_bits(data, at * 8 + index * bits, bits) for index in range(count)]
        at += size
        for row in rows:
            start = row & (1 << start_bits) - 1
            end = row >> start_bits & (1 << end_bits) - 1
            tp = TopicPartition(_numbered(row >> start_bits + end_bits), partition)
            if end:
                ends[tp] = whole(end - 1)
            if start:
                starts[tp] = whole(start - 1)
    return ends, starts


def named(
    offsets: Mapping[TopicPartition, int], topics: Iterable[str]
) -> dict[TopicPartition, int]:
    """Offsets by the names of these topics; those that stand for none of them are left out."""
    names = {_numbered(number_of(topic)): topic for topic in topics}
    found = {}
    for tp, offset in offsets.items():
        name = names.get(tp.topic) if tp.topic.startswith(NUMBERED) else tp.topic
        if name is not None:
            found[TopicPartition(name, tp.partition)] = offset
    return found


def _numbered(number: int) -> str:
    return f"{NUMBERED}{number:08x}"


def _bits(data: bytes, first: int, count: int) -> int:
    """The number that so many bits are, from the first one on."""
    last = first + count
    around = int.from_bytes(data[first // 8 : -(-last // 8)], "big")
    return around >> -last % 8 & (1 << count) - 1


def add_varint(found: bytearray, number: int) -> None:
    """Append a number, seven bits a byte, the lowest first."""
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)


def varint(data: bytes, at: int, bits: int) -> tuple[int, int]:
    """The number that begins there, and where the next one does.

    Raises:
        ValueError: it is cut off, or has more bits.
    """
    number = shift = 0
    while shift < bits:
        if at >= len(data):
            raise ValueError("a packed number is cut off")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if number >> bits or shift >= bits:
        raise ValueError(f"a packed number has more than {bits} bits")
    return number, at
