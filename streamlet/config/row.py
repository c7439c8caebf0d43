"""Rows of the table of settings: fields of a class of attrs with the facts of a setting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from streamlet.config import sources
from streamlet.config.values import ValueKind

T = TypeVar("T")


@attrs.frozen
class Row:
    """The facts of one setting in the table besides its name, type and default."""

    group: str
    kind: ValueKind[Any]
    doc: str
    shown: str


def row(
    group: str, kind: ValueKind[T], default: T | Callable[[], T], doc: str, shown: str = ""
) -> Any:
    """The field of a setting; ``shown`` describes a computed default on the page."""
    facts = Row(group, kind, doc, shown or sources.printed(default))
    if callable(default):
        return attrs.field(factory=default, metadata={"row": facts}, repr=not kind.secret)
    return attrs.field(default=default, metadata={"row": facts}, repr=not kind.secret)
