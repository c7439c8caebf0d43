"""The kinds of values a setting may have: how each is read from Python or text, and described.

``parse`` of a kind raises ValueError with what was expected; who asked adds the key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, Generic, TypeVar

import attrs

from streamlet.bounded import HOST, INT64_MAX, PORT_MAX, TOPIC_CHARACTERS, is_topic_name
from streamlet.user_code import plain_hint

T = TypeVar("T", covariant=True)
U = TypeVar("U")

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)")
_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?", re.IGNORECASE)
#: Digits of a number in text: more than any number has that is taken.
_MOST_DIGITS = 40
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
_STATIC_ID = re.compile(r"[A-Za-z0-9._-]{1,240}")
#: As the clients take it: in front may stand what Kafka's listeners are called by.
_SERVER = re.compile(
    r"(?:(?:sasl_)?(?:plaintext|ssl)://)?(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_TOKEN = re.compile(r"[!-~]{16,1024}")
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


@attrs.frozen
class ValueKind(Generic[T]):
    """A kind of value: what to call it, and how to read one; a ``secret`` one is never printed."""

    description: str
    parse: Callable[[object], T]
    secret: bool = False


def boolean() -> ValueKind[bool]:
    """True or false, as such or as text."""

    def parse(value: object) -> bool:
        if isinstance(value, bool):
            return value
        text = value.strip().lower() if isinstance(value, str) else ""
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise ValueError("expected true or false")

    return ValueKind("true or false", parse)


def whole(minimum: int = 0) -> ValueKind[int]:
    """A whole number."""
    expected = f"a whole number, {minimum} or more"

    def parse(value: object) -> int:
        number = _whole(value)
        if number is None or number < minimum:
            raise ValueError(f"expected {expected}")
        return number

    return ValueKind(expected, parse)


def _whole(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return _bounded(value)
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d+(_\d+)*", value.strip()):
        return _bounded(int(_short(value)))
    return None


def _bounded(number: int) -> int:
    """The number, which clients and stores can hold.

    Raises:
        ValueError: it takes more than 64 bits.
    """
    if abs(number) > INT64_MAX:
        raise ValueError(f"expected at most {INT64_MAX}")
    return number


def _short(digits: str) -> str:
    """The digits of a number, of which Python reads no thousands."""
    return digits if len(digits) <= _MOST_DIGITS else "9" * _MOST_DIGITS


def fraction(*, zero: bool) -> ValueKind[float]:
    """A share between 0 and 1; a percentage is refused with the fraction it probably means."""
    expected = "a fraction, 0 to 1" if zero else "a fraction above 0, up to 1"

    def parse(value: object) -> float:
        number = _number(value)
        if number is not None and 1 < number <= 100:
            raise ValueError(
                f"expected a fraction, not a percentage: {number / 100:g} means {number:g} %"
            )
        if number is None or not 0 <= number <= 1 or (number == 0 and not zero):
            raise ValueError(f"expected {expected}")
        return number

    return ValueKind(expected, parse)


def positive() -> ValueKind[float]:
    """A finite number above 0."""

    def parse(value: object) -> float:
        number = _number(value)
        if number is None or not 0 < number < float("inf"):
            raise ValueError("expected a number above 0")
        return number

    return ValueKind("a number above 0", parse)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def duration(minimum_ms: int = 0, *, off: int | None = None) -> ValueKind[int]:
    """Milliseconds as an int, a timedelta, or text with a unit (``500ms 30s 10m 1h 2d``).

    ``off`` is a number that is no duration and has a meaning of its own.
    """
    ending = (f", at least {minimum_ms} ms" if minimum_ms else "") + (
        f", or {off}" if off is not None else ""
    )

    def parse(value: object) -> int:
        milliseconds = _milliseconds(value)
        if off is not None and milliseconds == off:
            return off
        if milliseconds is None:
            raise ValueError(
                'expected whole milliseconds, a timedelta, or text such as "30s" (units: ms, s, m, '
                f"h, d){plain_hint(value)}"
            )
        if milliseconds < minimum_ms:
            raise ValueError(f"expected at least {minimum_ms} ms")
        return milliseconds

    return ValueKind("a duration" + ending, parse)


def _milliseconds(value: object) -> int | None:
    if isinstance(value, timedelta):
        exact, rest = divmod(value, timedelta(milliseconds=1))
        return None if rest else exact
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip().lower())):
        scaled = Fraction(_short(match[1])) * _MS[match[2]]
        return _bounded(int(scaled)) if scaled.denominator == 1 else None
    return _whole(value)


def size() -> ValueKind[int]:
    """Bytes as an int or text with a unit (``64 MiB``, ``1GB``)."""

    def parse(value: object) -> int:
        if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
            unit = (match[2] or "").lower()
            base = 1024 if unit.endswith("i") else 1000
            exact = Fraction(_short(match[1])) * base ** _POWERS.get(unit[:1], 0)
            found: int | None = _bounded(int(exact))
        else:
            found = _whole(value)
        if found is None or found < 0:
            raise ValueError('expected bytes, 0 or more, or text such as "64 MiB"')
        return found

    return ValueKind("bytes", parse)


def choice(*names: str, aliases: Mapping[str, str] | None = None) -> ValueKind[Any]:
    """One of some words."""
    words = {name: name for name in names} | dict(aliases or {})

    def parse(value: object) -> str:
        word = words.get(value.strip().lower()) if isinstance(value, str) else None
        if word is None:
            raise ValueError(f"expected {' or '.join(names)}")
        return word

    return ValueKind(" or ".join(f"`{name}`" for name in names), parse)


def text() -> ValueKind[str]:
    """Text that is not empty."""
    return _matching("text", "text", re.compile(r".+", re.DOTALL))


def _matching(
    description: str, expected: str, pattern: re.Pattern[str], *, secret: bool = False
) -> ValueKind[str]:
    """Text that matches as a whole, without the white space around it."""

    def parse(value: object) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value.strip()):
            raise ValueError(f"expected {expected}")
        return value.strip()

    return ValueKind(description, parse, secret)


def reference() -> ValueKind[str]:
    """The name of an object of the program."""
    return _matching("`module:attribute`", "module:attribute", _REFERENCE)


def servers() -> ValueKind[str]:
    """Addresses of brokers, of which at least one is needed."""

    def parse(value: object) -> str:
        given = value.split(",") if isinstance(value, str) else []
        matches = [_SERVER.fullmatch(one.strip()) for one in given]
        ports = [int(match[1] or 1) if match else 0 for match in matches]
        if not ports or not all(0 < port <= PORT_MAX for port in ports):
            raise ValueError("expected host:port, several joined by commas")
        return ",".join(one.strip() for one in given)

    return ValueKind("`host:port` joined by commas", parse)


def static_id() -> ValueKind[str]:
    """Check a ``group.instance.id`` as Kafka allows it, with room for a member's number."""
    allowed = "letters, digits, dots, dashes, underscores"
    return _matching(allowed, f"1 to 240 {allowed}", _STATIC_ID)


def topic() -> ValueKind[str]:
    """Check the name of a topic as Kafka allows it."""

    def parse(value: object) -> str:
        if not isinstance(value, str) or not is_topic_name(value.strip()):
            allowed = "letters, digits, dots, dashes, underscores"
            raise ValueError(f"expected 1 to {TOPIC_CHARACTERS} {allowed}")
        return value.strip()

    return ValueKind("the name of a topic", parse)


def port() -> ValueKind[int]:
    """A port to listen on; 0 is any that is free."""

    def parse(value: object) -> int:
        number = _whole(value)
        if number is None or not 0 <= number <= PORT_MAX:
            raise ValueError(f"expected a port from 0 to {PORT_MAX}")
        return number

    return ValueKind(f"a port from 0 to {PORT_MAX}", parse)


def host() -> ValueKind[str]:
    """A name or an address of a machine, or of one of its interfaces."""
    return _matching(what := "a host's name or address", what, HOST)


def host_and_port() -> ValueKind[tuple[str, int]]:
    """``host:port``; brackets are around an address of IPv6."""

    def parse(value: object) -> tuple[str, int]:
        name, _, number = value.strip().rpartition(":") if isinstance(value, str) else ("", "", "")
        name = name.removeprefix("[").removesuffix("]")
        found = _whole(number)
        if not HOST.fullmatch(name) or found is None or not 0 < found <= PORT_MAX:
            raise ValueError('expected host:port, such as "host-7:8080"')
        return name, found

    return ValueKind("`host:port`", parse)


def token() -> ValueKind[str]:
    """A secret that requests bear in a header."""
    described = "16 or more visible ASCII characters"
    return _matching(described, f"{described}, without spaces", _TOKEN, secret=True)


def folder() -> ValueKind[Path]:
    """A path from the root on, wherever a program goes later; ``~`` is the home folder."""

    def parse(value: object) -> Path:
        if not isinstance(value, str | Path) or not str(value).strip():
            raise ValueError("expected a path")
        if "\0" in str(value):
            raise ValueError("expected a path, which has no character 0")
        try:
            path = Path(value).expanduser()
        except RuntimeError as error:  # of a user that the machine does not know
            raise ValueError(f"its ~ cannot be resolved: {error}") from error
        try:
            return path.absolute()
        except FileNotFoundError:  # the working directory is gone; who uses the path says so
            return path

    return ValueKind("a path", parse)


def words() -> ValueKind[tuple[str, ...]]:
    """Some words in order, as a sequence or joined by commas."""

    def parse(value: object) -> tuple[str, ...]:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
            raise ValueError('expected words, as a list or text such as "zone,rack"')
        return tuple(part.strip() for part in parts if part.strip())

    return ValueKind("words joined by commas", parse)


def pairs() -> ValueKind[Mapping[str, str]]:
    """Names with values, as a mapping or as ``name=value`` joined by commas."""

    def parse(value: object) -> Mapping[str, str]:
        if isinstance(value, str):
            parts = [part.partition("=") for part in value.split(",") if part.strip()]
            found = {name.strip(): given.strip() for name, _, given in parts}
        else:
            found = dict(value) if isinstance(value, Mapping) else {"": ""}
        if not all(isinstance(part, str) and part for pair in found.items() for part in pair):
            raise ValueError('expected names with values, such as "zone=a,rack=3"')
        return found

    return ValueKind("`name=value` joined by commas", parse)


def optional(kind: ValueKind[U], *none: str) -> ValueKind[U | None]:
    """A kind whose default is "none"; the words given mean that as well."""

    def parse(value: object) -> U | None:
        if isinstance(value, str) and value.strip().lower() in none:
            return None
        return kind.parse(value)

    described = kind.description + "".join(f", or `{word}`" for word in none)
    return ValueKind(described, parse, kind.secret)
