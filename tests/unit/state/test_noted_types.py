"""The types of stores as a folder notes them, against those of the topology that opens it."""

from __future__ import annotations

from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import pytest

from streamlet.errors import StateMismatchError
from streamlet.serdes import Serde, avro
from streamlet.state.task_state import TaskState
from streamlet.types import StateNumber
from tests.unit.state.support import Spec, changelog


def opened(folder: Path, *specs: Spec) -> TaskState:
    return TaskState(folder, specs, 1 << 20, {one.name: changelog(one.name) for one in specs})


def put(state: TaskState, **values: Any) -> None:
    """Commit a value in each of these stores, and close them."""
    for store, value in values.items():
        state.stores[store].put("a", value)
    state.write(state.drain(), StateNumber(1, state.state.number + 1), {changelog("s"): 0})
    state.close()


def by_schema(*fields: str) -> Serde[Any]:
    named = [{"name": name, "type": "int"} for name in fields]
    return avro({"type": "record", "name": "Order", "fields": named})


def order_in(module: str) -> Any:
    order = make_dataclass("Order", [("n", int)])
    order.__module__ = module
    return dict[str, order]  # type: ignore[valid-type]


def test_values_of_another_avro_schema_are_refused_by_name(tmp_path: Path) -> None:
    put(opened(tmp_path, Spec("s", value=by_schema("a"))), s={"a": 1})
    message = r"store s held str -> avro\(Order, schema \w+\), now str -> avro\(Order, schema"
    with pytest.raises(StateMismatchError, match=message):
        opened(tmp_path, Spec("s", value=by_schema("a", "b")))
    opened(tmp_path, Spec("s", value=by_schema("a"))).close()


def test_a_class_in_a_container_may_move_to_another_module(tmp_path: Path) -> None:
    for module in ("shop", "sales"):
        put(opened(tmp_path, Spec("s", value=order_in(module))), s={})


def test_what_earlier_versions_noted_is_read_and_noted_anew(tmp_path: Path) -> None:
    """They noted modules of classes in containers, and no schemas."""
    specs = [Spec("s", value=order_in("shop")), Spec("t", value=by_schema("a"))]
    state = opened(tmp_path, *specs)
    state._layout = {"s": ("str", "json(dict[str, sales.Order])"), "t": ("str", "avro(Order)")}
    put(state, s={}, t={"a": 1})
    state = opened(tmp_path, *specs)
    assert state.stores["t"].get("a") == {"a": 1}
    put(state, t={"a": 2})
    with pytest.raises(StateMismatchError, match=r"store t held str -> avro\(Order, schema \w+\)"):
        opened(tmp_path, specs[0], Spec("t", value=by_schema("b")))
    with pytest.raises(StateMismatchError, match=r"store s held str -> json\(dict\[str, Order\]\)"):
        opened(tmp_path, Spec("s", value=dict[str, int]), specs[1])
