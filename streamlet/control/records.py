"""Entries of the control topic as Kafka records: JSON keys and values, for every Kafka tool.

A key says which kind of entry it is and whose; it must be the same bytes for ever, for compaction
goes by it. A kind that is not known here and a field that is not known stem from a later version
and are passed over. Any other bytes are an error of their own, which ends nothing.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs
import msgspec

from streamlet.bounded import INT32_MAX, Int32, Name, is_deeper, whole
from streamlet.control.values import (
    ChangelogTypes,
    Command,
    Description,
    Endpoint,
    Entry,
    Mark,
    MemberKey,
    MemberProgress,
    PauseMark,
    ResetEpoch,
    Shutdown,
    StoreServer,
    TopologyParts,
)

#: Kind of an entry, and what it is kept by within its kind.
Place: TypeAlias = tuple[type[Entry], str | MemberKey | None]

_KINDS: dict[str, type[Entry]] = {
    "mark": Mark,
    "progress": MemberProgress,
    "endpoint": Endpoint,
    "server": StoreServer,
    "reset": ResetEpoch,
    "shutdown": Shutdown,
    "command": Command,
    "types": ChangelogTypes,
    "description": Description,
    "pause": PauseMark,
}
#: Kinds that are kept by "id"; others by "instance".
_BY_ID: tuple[type[Entry], ...] = (Command, ChangelogTypes, PauseMark)
#: Kinds of which there is one entry at most, kept by nothing.
SINGLE = (ResetEpoch, Shutdown, Description)
_NAMES = {kind: name for name, kind in _KINDS.items()}
_DECODERS: dict[type[Entry], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in _NAMES
}


@attrs.frozen
class _Key:
    kind: str
    instance: Name | None = None
    number: Int32 | None = None
    id: Name | None = None


#: Levels of a topology's document; those that are written have five.
_MOST_LEVELS = 32

_KEY = msgspec.json.Decoder(_Key)


@attrs.frozen
class Change:
    """The change that a record brings: the entry at this place is now this, or none any more."""

    place: Place
    entry: Entry | None


def place_of(entry: Entry) -> Place:
    """The place where an entry is kept."""
    return type(entry), None if isinstance(entry, SINGLE) else entry.key


def encode_key(place: Place) -> bytes:
    """The key of the records about a place."""
    kind, whose = place
    key: dict[str, str | int] = {"kind": _NAMES[kind]}
    if isinstance(whose, MemberKey):
        key |= {"instance": whose.instance, "number": whose.number}
    elif whose is not None:
        key["id" if kind in _BY_ID else "instance"] = whose
    return msgspec.json.encode(key)


def encode_value(entry: Entry) -> bytes:
    """The value of an entry's record in the control topic."""
    return msgspec.json.encode(entry)


class ControlRecordError(ValueError):
    """A record of the control topic that cannot be an entry."""


def decode(key: bytes | None, value: bytes | None) -> Change | None:
    """Read a record; None for a kind of entry that this version does not know.

    Raises:
        ControlRecordError: it is no JSON, no UTF-8, nests too deeply, has a wrong shape or a number
            that cannot be, or its value is about another place than its key.
    """
    try:
        known = _KEY.decode(key or b"")
        place = _place(known)
        if place is None or value is None:
            return None if place is None else Change(place, None)
        entry = _DECODERS[place[0]].decode(value)
        _check(place, entry)
    except (ValueError, RecursionError) as error:  # msgspec's errors and those of UTF-8 are values'
        raise ControlRecordError(str(error) or type(error).__name__) from error
    return Change(place, entry)


def _check(place: Place, entry: Entry) -> None:
    if place_of(entry) != place:
        raise ValueError("key and value are about different entries")
    if isinstance(entry, ResetEpoch):
        for topic in entry.pending or ():
            whole(topic.partitions, 1, INT32_MAX)
            whole(topic.replication, -1, INT32_MAX)
    if isinstance(entry, Description):
        if is_deeper(entry.topology, _MOST_LEVELS):
            raise ValueError("its topology nests too deeply")
        msgspec.convert(entry.topology, TopologyParts)


def _place(key: _Key) -> Place | None:
    kind = _KINDS.get(key.kind)
    if kind is None:
        return None
    if kind in SINGLE:
        return kind, None
    whose = key.id if kind in _BY_ID else key.instance
    if whose is None:
        raise ValueError(f"a key of {key.kind} without an instance or id")
    if kind in (*_BY_ID, Mark):
        return kind, whose
    if key.number is None:
        raise ValueError(f"a key of {key.kind} without a number")
    return kind, MemberKey(whose, key.number)
