"""What a type checker must see; checked by mypy, never run."""

from __future__ import annotations

from typing import Any, assert_type
from uuid import UUID

import attrs

from streamlet.serdes import Serde, avro, float32, int32, json, list_of, serde


@attrs.frozen
class Order:
    amount: int


def encode_order(order: Order) -> bytes:
    return b""


def decode_order(raw: bytes) -> Order:
    return Order(1)


assert_type(serde(str), Serde[str])
assert_type(serde(int), Serde[int])
assert_type(serde(UUID), Serde[UUID])
assert_type(serde(Order), Serde[Order])
assert_type(serde(dict[str, Order]), Serde[dict[str, Order]])
assert_type(serde(None), Serde[None])
assert_type(serde((encode_order, decode_order)), Serde[Order])
assert_type(serde(json(Order)), Serde[Order])
assert_type(json(), Serde[Any])
assert_type(avro("long"), Serde[Any])
assert_type(int32(), Serde[int])
assert_type(float32(), Serde[float])
assert_type(list_of(Order), Serde[list[Order | None]])
assert_type(list_of(int32()), Serde[list[int | None]])
assert_type(serde(Order).decode(b""), Order)
assert_type(serde(Order).decode_column([b"", None]), list[Order | None])
assert_type(serde(int).encode_column([1, None]), list[bytes | None])

serde(int).encode("1")  # type: ignore[arg-type]
