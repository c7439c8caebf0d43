"""A task waits at the record whose schema a registry that is away has; nothing is left out."""

from __future__ import annotations

import pytest

import streamlet as sl
from streamlet.clock import ManualClock
from streamlet.errors import UnreachableRegistryError
from streamlet.processing.policy import ErrorPolicy
from streamlet.topology.graph import Graph
from streamlet.topology.nodes import SourceNode
from tests.registry_server import RegistryServer
from tests.unit.processing.test_task import IN, STR, raw, sink, task, values


def graph(registry: sl.registry.Registry) -> Graph:
    built = Graph("app")
    longs = sl.registry.avro('"long"', registry=registry)
    built.add_source(SourceNode("source", ("in",), STR, longs))
    built.add_sink(sink("source", value=sl.serde(int)))
    return built


def test_a_task_waits_at_the_record_that_needs_the_registry(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with RegistryServer() as server:
        clock = ManualClock()
        registry = sl.registry.Registry(server.url, clock=clock)
        registry._connection.block = lambda ms: None
        known, other = (server.add(schema).to_bytes(4, "big") for schema in ('"long"', '"int"'))
        running = task(graph(registry), ErrorPolicy.of("skip"), in_parts=True)
        assert values(running.process(raw(b"\0" + known + b"\2"), 1_000)) == [bytes(7) + b"\1"]
        server.bad = 503, b""
        behind = raw(b"broken", b"\0" + known + b"\4", b"\0" + other + b"\6", first=1)
        assert values(running.process(behind, 1_000)) == [bytes(7) + b"\2"]
        assert (running.counters.skipped, running.pausing) == (1, True)
        assert running.positions == {IN: 3}
        for now_ms in range(1_000, 20_000, 1_000):
            assert values(running.resume(now_ms)) == []
            clock.advance(1_000)
        assert (running.counters.skipped, running.positions) == (1, {IN: 3})
        (said,) = caplog.messages
        assert "task 0_0 waits: the schema registry at http://127.0.0.1" in said
        server.bad = None
        clock.advance(10_000)
        assert values(running.resume(30_000)) == [bytes(7) + b"\3"]
        assert (running.counters.skipped, running.positions) == (1, {IN: 4})
        assert running.pausing is False


def test_a_task_that_nothing_comes_back_to_fails() -> None:
    with RegistryServer() as server:
        registry = sl.registry.Registry(server.url)
        registry._connection.block = lambda ms: None
        server.bad = 503, b""
        running = task(graph(registry), ErrorPolicy.of("skip"))
        with pytest.raises(UnreachableRegistryError):
            running.process(raw(b"\0\0\0\0\1\2"), 1_000)
