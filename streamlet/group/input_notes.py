"""Notes of commits on one input partition: its incarnation, and the origins applied.

Part of the commit metadata of that partition, in JSON::

    "input": {"inc": 1766000000, "applied": "<base 85>", "open": true}

``applied`` has an entry per edge: four bytes of its source, lowest first, then as varints its
incarnation, the offset of the highest origin plus one, and the rest of that origin. The lowest bit
of the rest says whether the next record must follow on it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import attrs

#: Bits of an origin that are not its offset, the lowest of them for null values.
_REST_BITS = 20
_REST = (1 << _REST_BITS) - 1


@attrs.frozen
class InputNote:
    """The facts about one input partition that belong to a committed position.

    Attributes:
        incarnation: raised when the position was set back on purpose; 0 if never.
        applied: highest origin applied of each edge, its lowest bit set.
        loose: edges whose next record need not follow on that, because records were skipped.
        open: an edge that is not in ``applied`` may begin with any record.
    """

    incarnation: int = 0
    applied: Mapping[int, int] = attrs.field(factory=dict)
    loose: frozenset[int] = frozenset()
    open: bool = False

    def skipped(self) -> InputNote:
        """The note where records were skipped: each edge goes on with whatever comes next."""
        return attrs.evolve(self, loose=frozenset(self.applied), open=True)

    def as_json(self) -> dict[str, Any] | None:
        """The form in commit metadata; None if there is nothing to note."""
        fields: dict[str, Any] = {}
        if self.incarnation:
            fields["inc"] = self.incarnation
        if self.applied:
            fields["applied"] = self._text()
        if self.open:
            fields["open"] = True
        return fields or None

    @classmethod
    def from_json(cls, fields: Any) -> InputNote:
        """Read that form.

        Raises:
            ValueError, TypeError, AttributeError: it is damaged.
        """
        applied, loose = _parsed(fields.get("applied", ""))
        return cls(int(fields.get("inc", 0)), applied, loose, bool(fields.get("open", False)))

    def _text(self) -> str:
        found = bytearray()
        for edge, origin in sorted(self.applied.items()):
            rest = (origin & _REST & ~1) | (edge not in self.loose)
            found += (edge >> 32).to_bytes(4, "little")
            for number in (edge & 0xFFFFFFFF, origin >> _REST_BITS, rest):
                _add_varint(found, number)
        return base64.b85encode(bytes(found)).decode()


def _parsed(text: str) -> tuple[dict[int, int], frozenset[int]]:
    data, at = base64.b85decode(text), 0
    applied: dict[int, int] = {}
    loose = set()
    while at < len(data):
        source = int.from_bytes(data[at : at + 4], "little")
        numbers = []
        at += 4
        for _ in range(3):
            number, at = _varint(data, at)
            numbers.append(number)
        incarnation, offset, rest = numbers
        edge = source << 32 | incarnation
        applied[edge] = offset << _REST_BITS | rest | 1
        if not rest & 1:
            loose.add(edge)
    return applied, frozenset(loose)


def _add_varint(found: bytearray, number: int) -> None:
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("an entry of applied origins is cut off")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
