"""Windows and versions that bear the headers of the records that changed them last.

Several of them are in one row (``state.bucket_store``, ``state.version_rows``), so each has headers
of its own, where a row by key has them in front (``state.headed_rows``):

    times, length of the value, flagged · value · length of the headers, four bytes · headers

One without headers is as in any other store: a store may begin to keep them, and take up what it
had before. One that keeps none any more leaves them until a window or version is written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import msgspec

from streamlet.errors import SerdeError
from streamlet.kafka.ports import Headers
from streamlet.state.checked import EntryCheck

if TYPE_CHECKING:
    from streamlet.state.store_specs import StoreSpec

_LENGTH_BYTES = 4


class HeadedPart(tuple[Any, ...]):
    """A window or a version with headers, MessagePack; else the tuple that it is without them."""

    block: bytes


def in_parts(facts: StoreSpec) -> bool:
    """True for a store that has several windows or versions in a row."""
    window = facts.window
    return facts.versions is not None or (window is not None and bool(window.bucket_ms))


@attrs.define
class PartHeaders:
    """The headers of the record that changes the windows or versions of a store now."""

    _block: bytes = b""

    def begin(self, headers: Headers) -> None:
        """Let what is written from now on bear these; none without a record."""
        self._block = msgspec.msgpack.encode(headers) if headers else b""

    def on(self, part: Any) -> Any:
        """A window or a version that is written now."""
        return with_block(part, self._block) if self._block else part


def with_block(part: tuple[Any, ...], block: bytes) -> HeadedPart:
    """A window or a version with the bytes of headers."""
    headed = HeadedPart(part)
    headed.block = block
    return headed


def headers_of_part(part: Any) -> Headers:
    """The headers of a window or a version; ``ValueError``: no store has written them."""
    if not isinstance(part, HeadedPart):
        return ()
    found: Headers
    found = msgspec.msgpack.decode(part.block, type=tuple[tuple[str, bytes | None], ...])
    return found


def bare_parts(parts: list[Any]) -> list[Any]:
    """Windows or versions without their headers."""
    return [tuple(one) if isinstance(one, HeadedPart) else one for one in parts]


def fitting(check: EntryCheck, ckey: Any, row: Any, bare: Any) -> Any:
    """A row as it may be written: ``bare``, without headers, where it is too large with them.

    Raises:
        SerdeError: it may not be written without them, either.
    """
    try:
        check(ckey, row)
    except SerdeError:
        check(ckey, bare)
        return bare
    return row


def written_block(part: HeadedPart) -> bytes:
    """The headers of a window or a version as they stand behind its value."""
    return len(part.block).to_bytes(_LENGTH_BYTES, "big") + part.block


def read_block(raw: bytes, at: int) -> tuple[bytes, int]:
    """The bytes of headers behind a value, and where they end; ``ValueError``: they are cut off."""
    first = at + _LENGTH_BYTES
    end = first + int.from_bytes(raw[at:first], "big")
    if end > len(raw):
        raise ValueError("headers are cut off")
    return raw[first:end], end
