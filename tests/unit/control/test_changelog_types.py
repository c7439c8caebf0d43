"""Types that changelogs were written as, against those of the topology that is to run."""

from __future__ import annotations

from dataclasses import make_dataclass
from typing import Any

import pytest

import streamlet as sl
from streamlet.control.changelog_types import check_types, unnoted
from streamlet.control.records import encode_key, encode_value, place_of
from streamlet.control.view import ControlView
from streamlet.errors import StateMismatchError
from streamlet.topology.graph import Topology

HERE = {"app-latest-changelog": "id"}


def keeping(value: Any, key: Any = str) -> Topology:
    """A topology with a store of these types."""
    app = sl.App("app")
    orders = app.stream("orders", key=key, value=value).group_by_key()
    orders.reduce(lambda _, new: new, store="latest")
    return app.topology()


def noted(topology: Topology) -> ControlView:
    """A control topic in which a leader noted the types."""
    entries = unnoted(topology.changelog_types, ControlView(), HERE)
    return ControlView().apply_all(
        (encode_key(place_of(one)), encode_value(one)) for one in entries
    )


def by_schema(*fields: str) -> Any:
    named = [{"name": name, "type": "int"} for name in fields]
    return sl.avro({"type": "record", "name": "Order", "fields": named})


def order(*fields: Any, module: str = "shop") -> Any:
    made = make_dataclass("Order", fields)
    made.__module__ = module
    return made


OTHERS = {
    "another schema": (by_schema("a"), by_schema("b")),
    "eight bytes": (int, float),
    "any bytes": (str, bytes),
    "in a container": (dict[str, int], dict[str, str]),
}
ALIKE = {
    "one more field": (order(("n", int)), order(("n", int), ("m", int, 1))),
    "another module": (order(("n", int)), order(("n", int), module="sales")),
    "a schema again": (by_schema("a"), by_schema("a")),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("of_keys", [False, True])
def test_a_store_of_another_type_than_its_changelog_is_refused(name: str, of_keys: bool) -> None:
    before, now = OTHERS[name]
    topologies = [keeping(int, one) if of_keys else keeping(one) for one in (before, now)]
    (was,), (other,) = (one.changelog_types for one in topologies)
    with pytest.raises(StateMismatchError) as caught:
        check_types([other], noted(topologies[0]), HERE)
    shown = [" -> ".join(one.types) for one in (was, other)]
    assert f"store latest held {shown[0]}, now {shown[1]}. " in str(caught.value)
    assert "streamlet reset" in str(caught.value)
    check_types([was], noted(topologies[0]), HERE)


@pytest.mark.parametrize("name", ALIKE)
def test_what_the_rows_of_a_changelog_can_be_read_as_is_allowed(name: str) -> None:
    before, now = map(keeping, ALIKE[name])
    check_types(now.changelog_types, noted(before), HERE)
    assert unnoted(now.changelog_types, noted(before), HERE) == []


@pytest.mark.parametrize("ids", [{}, {"app-latest-changelog": "other"}])
def test_nothing_is_said_of_a_topic_that_is_gone_or_was_made_again(ids: dict[str, str]) -> None:
    now = keeping(str).changelog_types
    check_types(now, noted(keeping(int)), ids)
    assert [one.topic_id for one in unnoted(now, noted(keeping(int)), ids)] == [*ids.values()]


def test_only_topics_that_streamlet_writes_have_types() -> None:
    app = sl.App("app")
    rows = app.table("rows", key=str, value=int, store="rows")
    grouped = rows.to_stream().group_by_key()
    grouped.count(store=sl.Materialized("unlogged", logged=False))
    grouped.count(store="counts")
    assert [one.store for one in app.topology().changelog_types] == ["counts"]
