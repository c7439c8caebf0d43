"""A program and its next version over the same stores on disk: types, and drivers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pydantic
import pytest

import streamlet as sl
from streamlet.state.task_state import TaskState
from streamlet.testing import TopologyTestDriver
from streamlet.testing import driver as driver_module

#: Adds operators to an application, for a type of orders and the number of a version.
Program = Callable[[sl.App, type, int], Any]

#: An order as all versions read it.
RAW = b'{"customer":"ann","item":"lamp","note":"x","pieces":7}'


def order_type(*more: tuple[str, Any, Any], slots: bool = False) -> type:
    fields = [("customer", str), ("item", str), *more]
    return make_dataclass("Order", fields, slots=slots, namespace={"__module__": __name__})


def attrs_type(**more: Any) -> type:
    fields = {"customer": attrs.field(type=str), "item": attrs.field(type=str)}
    return attrs.make_class("Order", {**fields, **more})


def pydantic_type(**more: Any) -> type:
    fields: dict[str, Any] = {"customer": (str, ...), "item": (str, ...), **more}
    made: type = pydantic.create_model("Order", **fields)
    return made


#: Types of the value before and after.
TYPES: dict[str, tuple[type, type]] = {
    "the same": (order_type(), order_type()),
    "a field more": (order_type(), order_type(("gift", bool, False))),
    "a field more, with slots": (
        order_type(slots=True),
        order_type(("gift", bool, False), slots=True),
    ),
    "a field less": (order_type(("note", str, "")), order_type()),
    "a wider field": (order_type(("pieces", int, 1)), order_type(("pieces", float, 1))),
    "a struct with a field more": (
        msgspec.defstruct("Order", [("customer", str), ("item", str)]),
        msgspec.defstruct("Order", [("customer", str), ("item", str), ("gift", bool, False)]),
    ),
    "an attrs class with a field more": (
        attrs_type(),
        attrs_type(gift=attrs.field(type=bool, default=False)),
    ),
    "a class of pydantic with a field more": (
        pydantic_type(),
        pydantic_type(gift=(bool, False), tags=(set[str], {"a", "b", "c"})),
    ),
    "a list more": (order_type(), order_type(("tags", list[str], field(default_factory=list)))),
    "a struct for a dataclass": (
        order_type(),
        msgspec.defstruct("Order", [("customer", str), ("item", str)]),
    ),
}


#: Types for operators that do no more than to read and write them.
SOME_TYPES = ("a field more, with slots",)


def orders(app: sl.App, order: type) -> sl.KTable[str, Any]:
    return app.table("orders", key=str, value=order, store="orders")


class MemoryDriver(TopologyTestDriver):
    """A driver whose tasks keep their stores in memory, also beside those ``on_disk``."""

    def __init__(self, app: sl.App) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(driver_module, "TaskState", TaskState)
            super().__init__(app)


def keep_on_disk(monkeypatch: pytest.MonkeyPatch, folder_of_all: Path) -> None:
    """Have tasks of the driver keep their stores in folders, as instances do."""

    class OnDisk:
        @staticmethod
        def open(folder: Any, specs: Any, cache: int, changelogs: Any = None) -> TaskState:
            if specs:
                folder = folder_of_all / "-".join(sorted(spec.name for spec in specs))
                folder.mkdir(exist_ok=True)
            return TaskState.open(folder, specs, cache, changelogs)

    monkeypatch.setattr(driver_module, "TaskState", OnDisk)
