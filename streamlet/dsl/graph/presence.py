"""Serdes of a repartition topic whose reader asks only whether a record has a value (a count).

Records go on with the shortest bytes that the value's serde can read, where those are known: an
instance of a version that decodes values reads them too, and a null stays a null. The reader
decodes nothing, so it takes the whole values that such a version has written.
"""

from __future__ import annotations

from typing import Any

import attrs

from streamlet.serdes import Serde


def written(value: Serde[Any]) -> Serde[Any]:
    """The serde of the sink."""
    shortest = value.shortest
    if shortest is None:
        return value
    return attrs.evolve(
        value,
        encode=lambda _: shortest,
        encode_all=lambda column: [shortest] * len(column),
        accepts=frozenset(),
    )


def read(value: Serde[Any]) -> Serde[Any]:
    """The serde of the source: the bytes stand for the values."""
    return attrs.evolve(value, decode=_same, decode_all=_same, exact=None, decodes=None)


def _same(raw: Any) -> Any:
    return raw
