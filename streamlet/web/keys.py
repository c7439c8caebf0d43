"""Keys in addresses: text, JSON or bytes, read by the serde of the store's keys."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from streamlet.errors import SerdeError
from streamlet.serdes import Serde
from streamlet.state.query_errors import InvalidQueryError
from streamlet.user_code import shown

#: The forms of a key; ``text`` is read as the type of the store's keys.
FORMATS = ("text", "json", "base64")

_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")


def packed(raw: bytes) -> str:
    """Bytes as text for addresses, which is never empty; its order is of no meaning."""
    return urlsafe_b64encode(raw).decode().rstrip("=") or "="


def unpacked(text: str, what: str) -> bytes:
    """The bytes that ``packed`` was given.

    Raises:
        InvalidQueryError: it is no base64.
    """
    try:
        given = text.rstrip("=")
        return urlsafe_b64decode(given.encode("ascii") + b"=" * (-len(given) % 4))
    except ValueError as error:
        raise InvalidQueryError(f"{what}: expected base64 in the alphabet of addresses") from error


def address(*parts: str) -> str:
    """The address of these parts, as ``/stores/NAME/KEY``.

    Raises:
        InvalidQueryError: one is no UTF-8.
    """
    with in_utf8():
        return "".join(f"/{quote(part, safe='')}" for part in parts)


def with_parameters(path: str, given: Mapping[str, str]) -> str:
    """An address with parameters behind it.

    Raises:
        InvalidQueryError: one is no UTF-8.
    """
    with in_utf8():
        return f"{path}?{urlencode(given)}" if given else path


def texts(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Parameters as an address has them; those that are None or False are left out."""
    found = {}
    for name, value in parameters.items():
        if isinstance(value, float):
            found[name] = f"{value:g}"
        elif value is not None and value is not False:
            found[name] = "true" if value is True else str(value)
    return found


@contextmanager
def in_utf8() -> Iterator[None]:
    """Refuse a text without bytes, as of a command's argument whose bytes are no UTF-8."""
    try:
        yield
    except UnicodeEncodeError as error:
        text = shown(error.object)
        raise InvalidQueryError(f"{text} is no UTF-8; give such a key in base64") from error


def key_of(serde: Serde[Any], text: str, form: str, what: str = "key") -> Any:
    """The key that a text stands for.

    Raises:
        InvalidQueryError: it stands for none that the store can have.
    """
    try:
        key = _read(serde, text, form, what)
        if key is None:
            raise InvalidQueryError(f"{what}: there is no key that is null")
        serde.encode(key)
    except SerdeError as error:
        raise InvalidQueryError(f"{what}: {error}") from error
    return key


def _read(serde: Serde[Any], text: str, form: str, what: str) -> Any:
    if form == "base64":
        return serde.decode(unpacked(text, what))
    if form == "json":
        return _converted(serde, _json(text, what), what)
    match serde.declared:
        case kind if kind is bytes:
            return text.encode()
        case kind if kind is int:
            if not _WHOLE.fullmatch(text):
                raise InvalidQueryError(f"{what}: expected a whole number, not {shown(text)}")
            return int(text)
        case kind if kind in (float, bool):
            return _converted(serde, _json(text, what), what)
        case kind if isinstance(kind, type) and kind is not str:
            return _converted(serde, text, what)
        case _:
            return text


def _json(text: str, what: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise InvalidQueryError(f"{what}: expected JSON: {error}") from error


def _converted(serde: Serde[Any], value: Any, what: str) -> Any:
    """A value of JSON as the type that the keys have, where that is known."""
    kind = serde.declared
    if kind is None or isinstance(kind, str | dict | list):
        return value
    try:
        return msgspec.convert(value, kind)
    except (ValueError, TypeError) as error:
        if isinstance(error, TypeError):  # a type that msgspec does not know
            return value
        raise InvalidQueryError(f"{what}: {error}") from error
