"""``App(key=, value=)``: the types of what has none; what is given or inferred comes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import TopologyError
from streamlet.testing import TopologyTestDriver
from streamlet.topology.describe import as_json


def unknown(*values: Any) -> Any:
    """A function whose result has no type that can be inferred."""
    return values[-1]


Build = Callable[[sl.App, dict[str, Any]], object]

#: Programs that need types in every place that takes some: with ``given`` they are explicit.
PROGRAMS: dict[str, Build] = {
    "source": lambda a, g: a.stream("in", **g).to("out"),
    "sink": lambda a, g: a.stream("in", **g).map(lambda k, v: unknown((k, v)), **g).to("out"),
    "flat_map": lambda a, g: a.stream("in", **g).flat_map(unknown, **g).to("out"),
    "repartition": lambda a, g: (
        a.stream("in", **g).map(unknown, **g).repartition(name="again").to("out")
    ),
    "group_by": lambda a, g: (
        a.stream("in", **g).group_by(unknown, key=g.get("key")).count(store="counts")
    ),
    "reduce": lambda a, g: a.stream("in", **g).map(unknown, **g).group_by_key().reduce(unknown),
    "to_table": lambda a, g: a.stream("in", **g).map(unknown, **g).to_table(store="kept"),
    "table": lambda a, g: a.table("in", store="kept", **g).to_stream().to("out"),
    "table map_values": lambda a, g: a.table("in", **g).map_values(
        unknown, value=g.get("value"), store="mapped"
    ),
    "table group_by": lambda a, g: (
        a.table("in", **g).group_by(lambda k, v: unknown((v, k)), **g).reduce(unknown, unknown)
    ),
    "table join": lambda a, g: a.table("in", **g).join(
        a.table("other", **g), unknown_joiner, value=g.get("value"), store="joined"
    ),
    "foreign key": lambda a, g: a.table("in", **g).join(
        a.table("other", **g),
        unknown_joiner,
        foreign_key=lambda v: v,
        value=g.get("value"),
        store="joined",
    ),
    "stream table": lambda a, g: (
        a.stream("in", **g)
        .join(a.table("other", **g), unknown_joiner, value=g.get("value"))
        .to("out")
    ),
    "streams": lambda a, g: (
        a.stream("in", **g)
        .join(
            a.stream("other", **g),
            unknown_joiner,
            within=sl.join_windows("1m"),
            value=g.get("value"),
        )
        .to("out")
    ),
    "global": lambda a, g: (
        a.stream("in", **g)
        .join(a.global_table("all", **g), unknown_joiner, on=unknown, value=g.get("value"))
        .to("out")
    ),
    "process": lambda a, g: (
        a.stream("in", **g).process(lambda record: unknown(record), **g).to("out")
    ),
}


def unknown_joiner(left: Any, right: Any) -> Any:
    return unknown(left, right)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_default_makes_the_same_topology_as_the_types_given_everywhere(name: str) -> None:
    types: dict[str, Any] = {"key": str, "value": sl.json()}
    given, default = sl.App("a"), sl.App("a", **types)
    PROGRAMS[name](given, types)
    PROGRAMS[name](default, {})
    assert serdes_of(default) == serdes_of(given)
    assert as_json(default.topology()) == as_json(given.topology())


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_a_default_the_error_names_it(name: str) -> None:
    with pytest.raises(TopologyError, match=r"pass key=.*App\(key=\.\.\.\) as the default"):
        PROGRAMS[name](sl.App("a"), {})


def serdes_of(app: sl.App) -> list[tuple[str, str, str]]:
    found = []
    for part in app.topology().subtopologies:
        ends = (*part.sources, *part.sinks)
        found += [(node.name, node.key.name, node.value.name) for node in ends]
        found += [(store.name, store.key.name, store.value.name) for store in part.stores]
    return found


def test_what_is_given_or_inferred_comes_first() -> None:
    app = sl.App("a", key=bytes, value=bytes)
    stream = app.stream("in", key=str)
    stream.map_values(lambda v: f"{v}").to("inferred")
    stream.map_values(unknown, value=int).to("given")
    stream.map_values(unknown).to("sink", value=int)
    stream.map_values(unknown).to("default")
    assert {name: value for name, _, value in sinks(app)} == {
        "inferred": "str",
        "given": "int",
        "sink": "int",
        "default": "bytes",
    }
    assert {key for _, key, _ in sinks(app)} == {"str"}


def sinks(app: sl.App) -> list[tuple[str, str, str]]:
    parts = app.topology().subtopologies
    return [(one.topic, one.key.name, one.value.name) for part in parts for one in part.sinks]


def test_keys_that_are_always_null_are_no_missing_type() -> None:
    app = sl.App("a", key=str, value=str)
    app.stream("in", key=None).to("out")
    assert sinks(app) == [("out", "None", "str")]


def test_streams_that_differ_meet_as_the_default() -> None:
    app = sl.App("a", key=str, value=sl.json())
    lengths = app.stream("numbers", value=int)
    app.stream("texts", value=str).merge(lengths).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("numbers", "a", 1)
        driver.pipe_input("texts", "a", "x")
        out = driver.read_output("out", value=bytes)
        assert [record.value for record in out] == [b"1", b'"x"']


def test_half_a_default_asks_for_the_other_half() -> None:
    app = sl.App("a", key=str)
    with pytest.raises(
        TopologyError,
        match=r"^stream\('in'\): pass value=, the type of its values, or give App\(value=\.\.\.\)",
    ):
        app.stream("in")
    stream = app.stream("in", value=str)
    with pytest.raises(TopologyError, match=r"or give App\(value=\.\.\.\) as the default"):
        stream.map_values(unknown).to("out")
    stream.select_key(unknown).to("out")


def test_a_default_without_a_serde_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"App\(\), value=: no serde for object"):
        sl.App("a", value=object)


def test_records_are_read_and_written_by_the_defaults() -> None:
    app = sl.App("a", key=sl.serdes.int32(), value=str)
    counts = app.stream("in").group_by(lambda k, v: unknown(len(v))).count(store="counts")
    counts.to_stream().map_values(lambda n: unknown(str(n))).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_bytes("in", b"\0\0\0\x01", b"abc")
        (record,) = driver.read_output("out", key=bytes, value=bytes)
        assert (record.key, record.value) == (b"\0\0\0\x03", b"1")
