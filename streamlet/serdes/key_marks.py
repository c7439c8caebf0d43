"""The marks of serdes of keys, which stores note: with what decides about the bytes of equal keys.

A value of a class with a field more is read with its default. A key is looked up by its bytes,
which have that field as well: rows of before would never be found again.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import msgspec.inspect as kinds

from streamlet.serdes.json_decoders import class_of
from streamlet.serdes.json_types import bare_kind, describe, parts
from streamlet.serdes.marks import mark_of, with_schema
from streamlet.serdes.pydantic_models import is_pydantic
from streamlet.serdes.serde import Serde


def key_mark(serde: Serde[Any]) -> str:
    """The mark of a serde of keys: that of its name, with the fields of classes in it."""
    mark = mark_of(serde.name)
    if serde.format != "json of a type" or is_pydantic(serde.declared):
        return mark
    shapes = [_shape(part) for part in parts(describe(serde.declared)) if hasattr(part, "fields")]
    if not shapes:
        return mark
    text = msgspec.json.encode(sorted(shapes))
    return with_schema(mark, hashlib.blake2b(text, digest_size=8).hexdigest())


def _shape(part: Any) -> tuple[str, str, list[tuple[str, str]]]:
    """A class with what it writes of a value: the names of its fields, and their types."""
    config = getattr(class_of(part), "__struct_config__", None)
    omits = config is not None and config.omit_defaults
    fields = [
        (one.encode_name, _sort(one.type)) for one in part.fields if one.required or not omits
    ]
    form = f"{getattr(part, 'tag_field', None)} {getattr(part, 'array_like', False)}"
    return class_of(part).__name__, form, fields


def _sort(kind: kinds.Type) -> str:
    kind = bare_kind(kind)
    if isinstance(kind, kinds.UnionType):
        return " | ".join(sorted(map(_sort, kind.types)))
    return type(kind).__name__
