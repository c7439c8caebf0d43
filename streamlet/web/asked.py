"""Queries of HTTP as their addresses and parameters have them."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import msgspec

from streamlet.queries.position import Position
from streamlet.state.query_errors import InvalidQueryError
from streamlet.web.keys import FORMATS, texts
from streamlet.web.pages import FEW_ENTRIES, MOST_ENTRIES, Bounds, Cursor

#: How long an answer may wait for its task and its position, if nothing is said, and at most.
USUAL_MS, MOST_WAIT_MS = 1_000, 9_000
#: The largest staleness that may be allowed.
MOST_STALENESS_MS = 7 * 86_400_000
#: What is read of a key besides its value.
LISTS = ("windows", "sessions", "versions")

_KNOWN = frozenset(
    {"from", "to", "prefix", "reverse", "limit", "cursor", "as_of", "key-format", "partition"}
    | {"from-key", "to-key", "newest", "at_least", "timeout", "max_staleness"}
)
#: Parameters that mean nothing to a query, by what it reads: an answer would pass them over.
_MEANINGLESS: dict[str, frozenset[str]] = {
    "value": _KNOWN & {"from", "to", "from-key", "to-key", "prefix", "reverse", "limit", "cursor"},
    "entries": frozenset({"as_of"}),
} | dict.fromkeys(LISTS, frozenset({"from-key", "to-key", "prefix", "as_of"}))


@attrs.frozen
class Asked:
    """A query as its address and its parameters have it, not yet compared with the store.

    ``what`` is ``value``, one of ``LISTS``, or ``entries`` of all keys; ``ends`` are ``from`` and
    ``to`` as texts, ``key_ends`` the keys that windows and sessions are from and to. ``named``: the
    client named the partition.
    """

    store: str
    what: str
    key: str = ""
    form: str = "text"
    ends: tuple[str | None, str | None] = (None, None)
    key_ends: tuple[str | None, str | None] = (None, None)
    prefix: str | None = None
    bounds: Bounds = attrs.field(factory=Bounds)
    as_of: int | None = None
    newest: bool = False
    at_least: Position = attrs.field(factory=Position)
    partition: int | None = None
    timeout_ms: int = USUAL_MS
    named: bool = False
    max_staleness_ms: int | None = None

    @classmethod
    def of(cls, store: str, key: str | None, listed: str, given: Mapping[str, str]) -> Asked:
        """The query of an address.

        Raises:
            InvalidQueryError: a parameter is unknown, has no meaning here, or cannot be read.
        """
        unknown = sorted(given.keys() - _KNOWN)
        if unknown:
            raise InvalidQueryError(
                f"unknown parameters: {', '.join(unknown)}; there are {', '.join(sorted(_KNOWN))}"
            )
        what = "entries" if key is None else listed or "value"
        meaningless = sorted(given.keys() & _MEANINGLESS[what])
        if meaningless:
            raise InvalidQueryError(f"{', '.join(meaningless)}: no parameters of {what}")
        form = given.get("key-format", "text")
        if form not in FORMATS:
            raise InvalidQueryError(f"key-format: expected one of {', '.join(FORMATS)}")
        cursor = given.get("cursor")
        limit = _whole(given, "limit", FEW_ENTRIES, 1, MOST_ENTRIES)
        return cls(
            store,
            what,
            key or "",
            form,
            ends=(given.get("from"), given.get("to")),
            key_ends=(given.get("from-key"), given.get("to-key")),
            prefix=given.get("prefix"),
            bounds=Bounds(
                FEW_ENTRIES if limit is None else limit,
                None if cursor is None else Cursor.of(cursor),
                _flag(given, "reverse"),
            ),
            as_of=_whole(given, "as_of"),
            newest=_flag(given, "newest"),
            at_least=_position(given.get("at_least")),
            partition=_whole(given, "partition", None, 0, 1 << 31),
            timeout_ms=_wait_ms(given.get("timeout")),
            named="partition" in given,
            max_staleness_ms=_staleness_ms(given.get("max_staleness")),
        )

    def times(self) -> tuple[int | None, int | None]:
        """``from`` and ``to`` as times, ms since the epoch."""
        ends = {"from": self.ends[0], "to": self.ends[1]}
        given = {name: text for name, text in ends.items() if text is not None}
        return _whole(given, "from"), _whole(given, "to")

    def parameters(self) -> dict[str, str]:
        """The parameters by which another instance is asked the same of one task."""
        most = self.max_staleness_ms
        given = {
            "from": self.ends[0],
            "to": self.ends[1],
            "from-key": self.key_ends[0],
            "to-key": self.key_ends[1],
            "prefix": self.prefix,
            "key-format": self.form if self.what == "entries" else "base64",
            "limit": None if self.what == "value" else self.bounds.limit,
            "reverse": self.bounds.reverse,
            "cursor": None if self.bounds.after is None else self.bounds.after.text,
            "as_of": self.as_of,
            "newest": self.newest,
            "partition": self.partition if self.named else None,
            "max_staleness": None if most is None else f"{most / 1_000:.3f}",
        }
        return texts(given)


def _whole(
    given: Mapping[str, str],
    name: str,
    usual: int | None = None,
    least: int = -(1 << 63),
    most: int = (1 << 63) - 1,
) -> int | None:
    text = given.get(name)
    if text is None:
        return usual
    try:
        found = int(text) if len(text) <= 20 else None
    except ValueError:
        found = None
    if found is None or not least <= found <= most:
        raise InvalidQueryError(f"{name}: expected a whole number from {least} to {most}")
    return found


def _flag(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false")
    if text not in ("true", "false"):
        raise InvalidQueryError(f"{name}: expected true or false")
    return text == "true"


def _position(text: str | None) -> Position:
    if text is None:
        return Position()
    try:
        return Position.from_json(msgspec.json.decode(text))
    except (ValueError, RecursionError) as error:
        raise InvalidQueryError(f"at_least: {error}") from error


def _staleness_ms(text: str | None) -> int | None:
    return None if text is None else _seconds_ms(text, "max_staleness", MOST_STALENESS_MS)


def _wait_ms(text: str | None) -> int:
    return USUAL_MS if text is None else _seconds_ms(text, "timeout", MOST_WAIT_MS)


def _seconds_ms(text: str, name: str, most_ms: int) -> int:
    try:
        found_ms = float(text) * 1_000
    except ValueError:
        found_ms = -1.0
    if not 0 <= found_ms <= most_ms:
        raise InvalidQueryError(f"{name}: expected 0 to {most_ms // 1_000} seconds")
    return int(found_ms)
