"""A count through a repartition topic: no values are written, and those that are there count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from streamlet.app import App
from streamlet.dsl.graph import presence
from streamlet.serdes import json, serde
from streamlet.testing.driver import TopologyTestDriver
from streamlet.topology.graph import Topology
from streamlet.topology.nodes import SinkNode, SourceNode


@dataclass
class Sale:
    """A value for which no shorter bytes are known."""

    shop: str


def sink_and_source(topology: Topology, topic: str) -> tuple[SinkNode, SourceNode]:
    parts = topology.subtopologies
    [sink] = [node for part in parts for node in part.sinks if node.topic == topic]
    [source] = [node for part in parts for node in part.sources if topic in node.topics]
    return sink, source


def counting(value: Any, name: str | None = None) -> App:
    app = App("a")
    stream = app.stream("in", key=str, value=value)
    stream.group_by(lambda k, v: k, key=str, name=name).count(store="n").to_stream().to("out")
    return app


def test_a_count_writes_the_shortest_bytes_for_each_value_and_null_for_null() -> None:
    sink, _ = sink_and_source(counting(str).topology(), "a-n-repartition")
    assert sink.value.encode_column(["x" * 200, None, "y"]) == [b"", None, b""]
    sink, _ = sink_and_source(counting(json()).topology(), "a-n-repartition")
    assert sink.value.encode_column([{"a": "x" * 200}, None]) == [b"0", None]


@pytest.mark.parametrize("of", [str, bytes, int, float, bool, dict, list, json(), dict[str, int]])
def test_a_version_that_decodes_values_reads_what_a_count_writes(of: Any) -> None:
    whole = serde(of)
    written = presence.written(whole).encode_column([object(), None])
    assert [value is None for value in whole.decode_column(written)] == [False, True]


@pytest.mark.parametrize("of", [str, int, Sale, dict])
def test_a_count_takes_the_whole_values_of_a_version_that_writes_them(of: Any) -> None:
    app = counting(of)
    _, source = sink_and_source(app.topology(), "a-n-repartition")
    with TopologyTestDriver(app) as driver:
        for value in (b"whole", b"", b"\xff", None, b"0"):
            driver.pipe_bytes("a-n-repartition", b"k", value)
        assert [record.value for record in driver.read_output("out")] == [1, 2, 3, 4]
        assert driver.dropped() == 1
    assert source.value.name == serde(of).name


def test_values_without_known_shorter_bytes_are_written_whole() -> None:
    app = counting(Sale)
    sink, _ = sink_and_source(app.topology(), "a-n-repartition")
    assert sink.value.encode_column([Sale("s")]) == [b'{"shop":"s"}']


def test_a_named_topic_keeps_whole_values_for_other_folds() -> None:
    app = counting(str, name="by-key")
    sink, source = sink_and_source(app.topology(), "a-by-key-repartition")
    assert sink.value.encode_column(["x"]) == [b"x"]
    assert source.value.decode_column([b"x"]) == ["x"]


def test_the_topology_is_the_same_program_as_one_that_writes_whole_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(presence, "written", lambda value: value)
        patched.setattr(presence, "read", lambda value: value)
        whole = counting(str).topology()
    short = counting(str).topology()
    assert [part.hash for part in short.subtopologies] == [
        part.hash for part in whole.subtopologies
    ]
