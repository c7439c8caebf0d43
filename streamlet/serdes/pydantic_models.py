"""Serdes of pydantic's models and dataclasses: JSON that pydantic writes, reads and checks."""

from __future__ import annotations

from typing import Any

from streamlet.serdes.json_types import type_name
from streamlet.serdes.serde import Serde, build


def is_pydantic(of: object) -> bool:
    """True for a model or a dataclass of pydantic, which is not loaded for the answer."""
    return isinstance(of, type) and hasattr(of, "__pydantic_validator__")


def pydantic_json(of: type[Any]) -> Serde[Any]:
    """The serde of such a class: its validators check what is read, its types what is written.

    Names are the aliases that it declares. A value is of this very class.
    """
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(of)

    def decode(raw: bytes) -> Any:
        try:
            return adapter.validate_json(raw)
        except ValidationError as error:
            places = (".".join(map(str, one["loc"])) or "it" for one in error.errors())
            found = zip(places, (one["msg"] for one in error.errors()), strict=True)
            raise ValueError("; ".join(f"{place}: {text}" for place, text in found)) from error

    def encode(value: Any) -> bytes:
        return adapter.dump_json(value, by_alias=True, round_trip=True, warnings="error")

    return build(
        f"json({type_name(of)})",
        encode,
        decode,
        accepts=frozenset({of}),
        declared=of,
        format="json of a type",
    )
