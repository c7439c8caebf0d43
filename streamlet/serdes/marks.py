"""The names of serdes as stores, members and checkpoints note them, to be compared later.

A mark says what bytes mean, and nothing that may change beside it: a class has its name in it, and
not that of its module, to which it may move. An Avro serde has its schema in its name, as a short
hash. Earlier versions noted modules, for classes within containers, and no schemas.
"""

from __future__ import annotations

import re

#: Where the schema of an Avro serde stands in its name.
_SCHEMA = re.compile(r", schema [0-9a-f]{16}(?=[,)])")
#: Text in quotes, functions of a user's, and the modules and classes before a name.
_BEFORE_NAMES = re.compile(
    r"'[^']*'|\"[^\"]*\"|custom\([^)]*\)|((?:[^\W\d]\w*\.|<locals>\.)+)(?=[^\W\d])"
)


def mark_of(name: str) -> str:
    """The mark of a serde with a name; of a mark itself."""
    return _BEFORE_NAMES.sub(lambda found: "" if found[1] else found[0], name)


def former_name(name: str) -> str:
    """The name that a serde had in earlier versions."""
    return _SCHEMA.sub("", name)


def with_schema(name: str, schema: str) -> str:
    """The name of an Avro serde ``avro(Order)`` with the hash of its schema, 16 hex digits."""
    return f"{name[:-1]}, schema {schema})"


def is_noted_as(noted: str, name: str) -> bool:
    """True if what was noted stands for a serde with this name, whatever version noted it.

    Of an Avro serde that an earlier version noted the schema is not known, and counts as the same.
    """
    return mark_of(noted) in (mark_of(name), mark_of(former_name(name)))
