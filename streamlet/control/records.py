"""Entries of the control topic as Kafka records: JSON keys and values, for every Kafka tool.

A key says which kind of entry it is and whose; it must be the same bytes for ever, for compaction
goes by it. A kind that is not known here, a field that is not known, and what is no JSON stem from
a later version or from another program and are passed over.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs
import msgspec

from streamlet.control.values import (
    Command,
    Endpoint,
    Entry,
    Mark,
    MemberKey,
    MemberProgress,
    ResetEpoch,
    Shutdown,
)

#: Kind of an entry, and what it is kept by within its kind.
Place: TypeAlias = tuple[type[Entry], str | MemberKey | None]

_KINDS: dict[str, type[Entry]] = {
    "mark": Mark,
    "progress": MemberProgress,
    "endpoint": Endpoint,
    "reset": ResetEpoch,
    "shutdown": Shutdown,
    "command": Command,
}
#: Kinds of which there is one entry at most, kept by nothing.
SINGLE = (ResetEpoch, Shutdown)
_NAMES = {kind: name for name, kind in _KINDS.items()}
_DECODERS: dict[type[Entry], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in _NAMES
}


@attrs.frozen
class _Key:
    kind: str
    instance: str | None = None
    number: int | None = None
    id: str | None = None


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
        key["id" if kind is Command else "instance"] = whose
    return msgspec.json.encode(key)


def encode_value(entry: Entry) -> bytes:
    """The value of the record that says an entry."""
    return msgspec.json.encode(entry)


def decode(key: bytes | None, value: bytes | None) -> Change | None:
    """Read a record; None for what this version does not know."""
    try:
        place = _place(_KEY.decode(key or b""))
        if place is None or value is None:
            return None if place is None else Change(place, None)
        return Change(place, _DECODERS[place[0]].decode(value))
    except msgspec.DecodeError:  # no JSON, or none of the right shape
        return None


def _place(key: _Key) -> Place | None:
    kind = _KINDS.get(key.kind)
    if kind in SINGLE:
        return kind, None
    if kind is Command:
        return None if key.id is None else (kind, key.id)
    if kind is None or key.instance is None:
        return None
    if kind is Mark:
        return kind, key.instance
    return None if key.number is None else (kind, MemberKey(key.instance, key.number))
