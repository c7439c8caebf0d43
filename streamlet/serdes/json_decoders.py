"""Decoders of msgspec, with what msgspec leaves undone in dataclasses and attrs classes.

Three faults of msgspec are mended here, when a decoder is made:

- It compares names by their UTF-8, which Python makes for a name beyond ASCII only when it is first
  asked to, and takes such a field for one that it does not know. So each name is written once.
- A field of a dataclass with a default that is left out of a document is not set: the class shows
  the default, and the instance, written again, leaves it out as well. One key would have two forms.
- The attributes of an attrs class without slots are written in the order in which they were set,
  which is that of the document.

msgspec keeps what it knows of a class, and calls what was ``__post_init__`` when it first looked.
It is made to look while that is a function which sets what is missing, then calls the class's own.
"""

from __future__ import annotations

import dataclasses
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from operator import attrgetter
from typing import Any, get_origin

import msgspec
import msgspec.inspect as kinds

_ABSENT = object()
_write = msgspec.json.Encoder().encode
#: Classes are changed for a moment while a decoder is made: one thread at a time.
_ONE_AT_A_TIME = threading.RLock()

Hook = Callable[[Any], None]


def readers(
    of: Any, parts: Iterable[kinds.Type]
) -> tuple[Callable[[bytes], Any], Callable[[list[bytes]], list[Any]]]:
    """Functions that decode one value, and a column, of a type with these parts.

    Raises:
        As ``decoder_of``.
    """
    parts = list(parts)
    full = decoder_of(of, parts).decode
    hooked = [cls for cls in _classes(parts) if _hook(cls) is not None]
    if hooked != [of] or hasattr(of, "__post_init__") or hasattr(of, "__attrs_attrs__"):
        return full, lambda column: list(map(full, column))
    # A class by itself: whether a field was left out shows in what was read.
    quick = decoder_of(of, parts, mended=False).decode
    count = len(dataclasses.fields(of))
    there, all_there = attrgetter("__dict__"), frozenset({count}).issuperset

    def read(raw: bytes) -> Any:
        value = quick(raw)
        return value if len(value.__dict__) == count else full(raw)

    def read_all(column: list[bytes]) -> list[Any]:
        values = list(map(quick, column))
        return values if all_there(map(len, map(there, values))) else list(map(full, column))

    return read, read_all


def _classes(parts: Iterable[kinds.Type]) -> set[Any]:
    return {class_of(part) for part in parts if isinstance(part, kinds.DataclassType)}


def decoder_of(
    of: Any, parts: Iterable[kinds.Type], *, mended: bool = True
) -> msgspec.json.Decoder[Any]:
    """A decoder of a type that consists of these parts.

    ``mended``: also of documents that leave out fields, or have them in another order.

    Raises:
        TypeError, NameError, ValueError, RuntimeError: msgspec cannot read the type.
    """
    parts = list(parts)
    for name in _names(parts):
        _write(name)
    hooks = [(cls, *found) for cls in _classes(parts) if (found := _hook(cls)) is not None]
    with _ONE_AT_A_TIME, ExitStack() as changed:
        for part in parts if hooks else ():
            cls: Any = getattr(part, "cls", None)
            for one in (cls, get_origin(cls)):
                if "__msgspec_cache__" in getattr(one, "__dict__", ()):
                    del one.__msgspec_cache__
        for hook in hooks if mended else ():
            changed.enter_context(_replaced(*hook))
        return msgspec.json.Decoder(of)


def class_of(part: kinds.Type) -> Any:
    """The class of a described record type, without the parameters of a generic one."""
    cls: Any = getattr(part, "cls", None)
    return get_origin(cls) or cls


def _names(parts: Iterable[kinds.Type]) -> Iterator[str]:
    """All names in documents of a type."""
    for part in parts:
        for field in getattr(part, "fields", ()):
            yield field.name
            yield field.encode_name
        cls = class_of(part)
        if isinstance(part, kinds.StructType):
            tags = (part.tag_field, part.tag)
            yield from (one for one in tags if isinstance(one, str))
            yield from cls.__struct_encode_fields__
        elif isinstance(part, kinds.TypedDictType):
            yield from (name for one in cls.__mro__ for name in inspect.get_annotations(one))
        elif isinstance(part, kinds.DataclassType):
            attributes = getattr(cls, "__attrs_attrs__", ())
            fields = getattr(cls, "__dataclass_fields__", {})
            yield from (one.name for one in (*attributes, *fields.values()))


def _hook(cls: Any) -> tuple[str, Hook] | None:
    """The name of a class's method that has to be replaced, and the replacement; None: no need."""
    if hasattr(cls, "__dataclass_fields__"):
        fields = dataclasses.fields(cls)
        shown = {one.name: one.default for one in fields if _is_shown(cls, one)}
        own = getattr(cls, "__post_init__", None)
        return ("__post_init__", _filling(shown, len(fields), own)) if shown else None
    attributes = vars(cls).get("__attrs_attrs__", ())
    if len(attributes) > 1 and cls.__dictoffset__:
        own = getattr(cls, "__attrs_post_init__", None)
        return "__attrs_post_init__", _ordering(tuple(one.name for one in attributes), own)
    return None


def _is_shown(cls: type, field: dataclasses.Field[Any]) -> bool:
    """True if an instance that lacks the field shows its default all the same."""
    found = inspect.getattr_static(cls, field.name, _ABSENT)
    return found is not _ABSENT and not hasattr(type(found), "__set__")


def _filling(defaults: dict[str, Any], count: int, own: Hook | None) -> Hook:
    items = tuple(defaults.items())

    def fill(self: Any) -> None:
        there = self.__dict__
        if len(there) < count:
            for name, default in items:
                there.setdefault(name, default)
        if own is not None:
            own(self)

    return fill


def _ordering(names: tuple[str, ...], own: Hook | None) -> Hook:
    def order(self: Any) -> None:
        there = self.__dict__
        if tuple(there) != names:
            values = {name: there[name] for name in names if name in there}
            there.clear()
            there.update(values)
        if own is not None:
            own(self)

    return order


@contextmanager
def _replaced(cls: Any, name: str, method: Hook) -> Iterator[None]:
    """A class that has another method for a while."""
    own = vars(cls).get(name, _ABSENT)
    setattr(cls, name, method)
    try:
        yield
    finally:
        if own is _ABSENT:
            delattr(cls, name)
        else:
            setattr(cls, name, own)
