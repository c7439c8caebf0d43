"""What a worker measures, how an instance shows it, and what the probes make of it."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import urllib.error
import urllib.request
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

import streamlet as sl
from streamlet.clock import ManualClock
from streamlet.config import Settings
from streamlet.errors import ConfigError
from streamlet.histogram import SECONDS, Histogram
from streamlet.runtime.metrics import health, page
from streamlet.runtime.metrics.consumer import ConsumerCollector
from streamlet.runtime.metrics.exposition import Exposition
from streamlet.runtime.metrics.health import HealthLimits, MemberReport
from streamlet.runtime.metrics.server import MOST_CONNECTIONS, MOST_MS, MetricsServer, serving
from streamlet.runtime.metrics.spark_table import SPARK_SECONDS
from streamlet.runtime.metrics.table import METRICS
from streamlet.runtime.metrics.values import MemberHealth, Sample, Snapshot
from streamlet.tasks.meters import Meters, Rate
from streamlet.testing import TopologyTestDriver
from streamlet.types import TaskId

PAGE = page.PAGE.read_text("utf-8")
#: The page with Kafka's metrics, each with the expression of ours that has its value.
KAFKAS = page.PAGE.with_name("metrics-kafka-streams.md").read_text("utf-8")
LIMITS = HealthLimits(loop_ms=300_000, heartbeat_ms=10_000)
WELL = MemberHealth("RUNNING", 3, 200, True, ())
SUPPRESS = "KTABLE-SUPPRESS-0000000003"
HISTOGRAM = [1.0] + [0.0] * (len(SECONDS) - 1) + [2.0, 90.5]


def exposition(clock: ManualClock | None = None, members: int = 1) -> Exposition:
    return Exposition("flights", "h1", members, limits=LIMITS, clock=clock or ManualClock())


def snapshot(*samples: Sample, health: MemberHealth = WELL) -> Snapshot:
    return Snapshot(samples or (Sample("streamlet_group_generation", (), 3.0),), health)


def registry(of: Exposition) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(of)
    return made


def server(of: Exposition, port: int = 0, host: str = "127.0.0.1") -> MetricsServer:
    return MetricsServer(registry(of), of.alive, of.ready, port, host)


def shown(of: Exposition) -> dict[str, float]:
    """Samples of the text format, by name and labels."""
    from prometheus_client import generate_latest

    text = generate_latest(registry(of)).decode()
    return {
        f"{s.name}{json.dumps(s.labels, sort_keys=True)}": s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def test_the_page_has_the_tables_as_they_are() -> None:
    """Else run `python -m streamlet.runtime.metrics.page`."""
    assert page.with_tables(PAGE) == PAGE
    assert PAGE.count("| `streamlet_") > len(METRICS)
    for bounds in (SECONDS, SPARK_SECONDS):
        assert f"{', '.join(f'{bound:g}' for bound in bounds)} s." in PAGE


def test_names_follow_prometheus() -> None:
    for metric in METRICS.values():
        assert re.fullmatch(r"streamlet_[a-z0-9_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        # Those are series of a histogram; promtool objects to anything else that is called so.
        assert not metric.name.endswith(("_count", "_sum", "_bucket"))
        if metric.kind == "histogram":
            assert metric.name.endswith("_seconds")


def test_each_way_to_a_number_of_kafkas_uses_metrics_that_are_there() -> None:
    rows = re.findall(r"^\| `(.+)` \| `(.+)` \|$", KAFKAS, re.MULTILINE)
    assert len(rows) == KAFKAS.count("\n| `") > 70
    for name, ours in rows:
        used = set(re.findall(r"streamlet_[a-z0-9_]+", ours))
        assert used, name
        for one in used:
            assert one in METRICS or re.sub(r"_(sum|count|bucket)$", "", one) in METRICS, ours


def test_a_buffer_of_suppress_tells_what_waits_and_what_was_sent() -> None:
    app = sl.App("a")
    held = sl.Materialized("held")
    table = app.table("in", key=str, value=str)
    table.suppress(sl.until_time_limit(10, max_bytes=99), store=held).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        for key, value, time in (("a", "1", 5), ("a", "2", 6), ("b", "xyz", 16)):
            driver.pipe_input("in", key, value, time)
        member: Any = SimpleNamespace(tasks={"0_0": driver._parts[0].task})
        told = {
            name: found.of(member)
            for name, found in METRICS.items()
            if "suppression" in name and found.of is not None
        }
    assert told == {
        "streamlet_stream_processor_node_suppression_emit_total": {("0_0", SUPPRESS): 1},
        "streamlet_stream_state_suppression_buffer_records": {("0_0", "held"): 1},
        "streamlet_stream_state_suppression_buffer_size_bytes": {("0_0", "held"): 4},
    }


def test_a_duration_falls_into_its_bucket() -> None:
    one = Histogram()
    one.add_ns(1_000_000)  # a bound belongs to its bucket
    one.add_ns(1_000_001)
    one.add_ns(60_000_000_000)
    assert one.counts == [1, 1] + [0] * (len(SECONDS) - 2) + [1]
    assert one.sum == pytest.approx(60.002000001)


def test_a_rate_forgets_what_is_older_than_its_window() -> None:
    rate = Rate()
    assert rate.add(0, 100) == 0.0
    assert rate.add(10_000, 1_100) == 100.0
    assert rate.add(40_000, 1_100) == 0.0  # nothing within the last 30 s
    assert rate.add(41_000, 1_131) == 1.0


def test_how_busy_a_worker_was_is_a_share_of_the_time_since_it_was_asked() -> None:
    meters = Meters(ManualClock())
    meters.process.add_ns(9_000_000_000)
    assert meters.busy(0) is None
    meters.process.add_ns(500_000_000)
    assert meters.busy(500) is None  # too short a time to tell
    assert meters.busy(2_000) == 0.25
    assert meters.busy(2_100) == 0.25
    meters.process.add_ns(5_000_000_000)
    assert meters.busy(4_000) == 1.0


def test_a_handover_is_timed_on_both_sides() -> None:
    clock = ManualClock()
    meters = Meters(clock)
    meters.activating(TaskId(0, 1), marked=True)
    meters.activating(TaskId(0, 2), marked=False)
    clock.advance(30)
    meters.running(TaskId(0, 1))
    meters.running(TaskId(0, 2))
    assert meters.activate_marked.sum == meters.activate_outright.sum == 0.03
    assert meters.created == 2
    meters.activating(TaskId(0, 3), marked=True)
    meters.forget(TaskId(0, 3))  # it was cancelled
    meters.running(TaskId(0, 3))
    assert sum(meters.activate_marked.counts) == 1


def test_a_snapshot_survives_the_pipe() -> None:
    told = snapshot(
        Sample("streamlet_stream_task_info", ("0_1", "active", "running"), 1),
        Sample("streamlet_stream_thread_poll_latency_seconds", (), HISTOGRAM),
        health=attrs.evolve(WELL, waiting=("0_1",)),
    )
    assert Snapshot.from_event(json.loads(json.dumps(told.to_event()))) == told


def test_every_member_has_its_label_and_the_instance_its_own_values() -> None:
    one = exposition(members=2)
    one.take(0, snapshot(Sample("streamlet_stream_thread_process_total", (), 7)))
    one.take(1, snapshot(Sample("streamlet_stream_thread_process_total", (), 5)))
    found = shown(one)
    me = '"application": "flights", "member": '
    assert found[f'streamlet_stream_thread_process_total{{{me}"h1-0"}}'] == 7
    assert found[f'streamlet_stream_thread_process_total{{{me}"h1-1"}}'] == 5
    assert found[f'streamlet_stream_alive_stream_threads{{{me}""}}'] == 2
    one.ended(1, failed=True)
    found = shown(one)
    assert f'streamlet_stream_thread_process_total{{{me}"h1-1"}}' not in found
    assert found[f'streamlet_stream_alive_stream_threads{{{me}""}}'] == 1
    assert found[f'streamlet_stream_failed_stream_threads_total{{{me}""}}'] == 1


def test_a_histogram_is_shown_cumulated() -> None:
    one = exposition()
    one.take(0, snapshot(Sample("streamlet_handover_release_seconds", (), HISTOGRAM)))
    found = shown(one)
    base = 'streamlet_handover_release_seconds_bucket{"application": "flights", "le": '
    assert found[base + '"0.001", "member": "h1-0"}'] == 1
    assert found[base + '"30.0", "member": "h1-0"}'] == 1
    assert found[base + '"+Inf", "member": "h1-0"}'] == 3
    me = '{"application": "flights", "member": "h1-0"}'
    assert found[f"streamlet_handover_release_seconds_sum{me}"] == 90.5
    assert found[f"streamlet_handover_release_seconds_count{me}"] == 3


@pytest.mark.parametrize(
    ("told", "age_ms", "alive", "ready"),
    [
        (WELL, 1_000, True, True),
        (health.STARTING, 1_000, True, False),
        (health.STARTING, 300_001, True, False),
        (attrs.evolve(WELL, state="CREATED"), 300_001, True, False),
        (attrs.evolve(WELL, state="ERROR"), 300_001, True, False),
        (attrs.evolve(WELL, state="NOT_RUNNING"), 300_001, True, False),
        (attrs.evolve(WELL, state="REBALANCING"), 300_001, False, False),
        (health.RESTARTING, 300_001, True, False),
        (WELL, 300_001, False, False),
        (attrs.evolve(WELL, state="REBALANCING"), 0, True, False),
        (attrs.evolve(WELL, waiting=("0_1",)), 0, True, False),
        (attrs.evolve(WELL, generation=-1), 0, True, False),
        (attrs.evolve(WELL, heartbeat_age_ms=10_001), 0, False, False),
        (attrs.evolve(WELL, heartbeat_age_ms=10_001, linked=False), 0, True, False),
        (MemberHealth("PENDING_SHUTDOWN", 3, 10_001), 0, True, False),
        (MemberHealth("ERROR", -1), 0, True, False),
    ],
)
def test_when_a_member_is_alive_and_when_it_is_ready(
    told: MemberHealth, age_ms: int, alive: bool, ready: bool
) -> None:
    members = {"h1-0": MemberReport(told, age_ms), "h1-1": MemberReport(WELL, 0)}
    found = health.alive(members, LIMITS)
    assert found["ok"] == alive, found
    found = health.ready(members, LIMITS)
    assert found["ok"] == ready, found
    assert bool(found["members"]["h1-0"]["problems"]) != ready
    assert found["members"]["h1-1"]["problems"] == []


def test_limits_are_the_applications() -> None:
    settings = Settings.load(overrides=["max.poll.interval.ms=5s", "session.timeout.ms=2s"])
    assert HealthLimits.from_settings(settings) == HealthLimits(5_000, 2_000)


def get(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=300) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()


def document(url: str) -> tuple[int, Any]:
    status, body = get(url)
    return status, json.loads(body)


def test_a_probe_without_a_body_is_answered_as_one_with_it() -> None:
    one = exposition(ManualClock())
    with server(one) as served:
        for path, status in (("/metrics", 200), ("/health", 200), ("/nothing", 404)):
            link = http.client.HTTPConnection("127.0.0.1", served.port, timeout=300)
            link.request("HEAD", path)
            answer = link.getresponse()
            assert (answer.status, answer.read()) == (status, b"")
            assert answer.getheader("Content-Type")
            link.close()


def test_a_request_for_a_format_that_cannot_be_read_is_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each such request had a traceback in the log, and no answer."""
    with server(exposition()) as served:
        for version in ("abc", "1.x.0"):
            accept = {"Accept": f"application/openmetrics-text; version={version}"}
            asked = urllib.request.Request(f"{served.url}/metrics", headers=accept)
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(asked, timeout=300)
            with refused.value:
                assert refused.value.code == 400
    assert caplog.records == []


def test_three_paths_are_served() -> None:
    clock = ManualClock()
    one = exposition(clock)
    with server(one) as served:
        assert served.url == f"http://127.0.0.1:{served.port}"
        assert document(served.url + "/health")[0] == 200
        status, found = document(served.url + "/ready")
        assert (status, found["members"]["h1-0"]["problems"]) == (
            503,
            ["state STARTING", "not in the group"],
        )
        one.take(0, snapshot())
        assert document(served.url + "/ready")[0] == 200
        status, body = get(served.url + "/metrics")
        assert status == 200
        assert b'streamlet_group_generation{application="flights",member="h1-0"} 3.0' in body
        assert document(served.url + "/elsewhere") == (
            404,
            {"paths": ["/metrics", "/health", "/ready"]},
        )
        clock.advance(300_001)
        status, found = document(served.url + "/health")
        assert status == 503
        assert found["members"]["h1-0"]["problems"] == ["the loop has not gone round for 300 s"]


def test_a_port_that_is_taken_is_named() -> None:
    with server(exposition()) as served:
        taken = re.escape(f"port {served.port} on 127.0.0.1 is taken")
        with pytest.raises(ConfigError, match=taken):
            server(exposition(), served.port)


@pytest.mark.parametrize(("port", "host"), [(70_000, "127.0.0.1"), (0, "no.such.host.invalid")])
def test_what_cannot_be_listened_on_is_refused(port: int, host: str) -> None:
    with pytest.raises(ConfigError, match="metrics: "):
        server(exposition(), port, host)


def test_without_a_port_nothing_is_served() -> None:
    told: list[str] = []
    with serving("flights", "h1", 1, Settings.load(), None, on_served=told.append) as one:
        assert one is None
    assert told == []


def test_a_consumers_counters_are_shown() -> None:
    from prometheus_client import generate_latest

    registry = CollectorRegistry()
    counted = {"num.incompatible.rebalance": 2, "assigned.partitions": 4}
    registry.register(ConsumerCollector(lambda: counted, "g"))
    text = generate_latest(registry).decode()
    assert 'streamlet_consumer_num_incompatible_rebalance_total{group="g"} 2.0' in text
    assert 'streamlet_consumer_assigned_partitions{group="g"} 4.0' in text


def probe(of: MetricsServer) -> int:
    """The status of the readiness probe."""
    connection = http.client.HTTPConnection("127.0.0.1", of.port, timeout=300)
    connection.request("GET", "/ready")
    status = connection.getresponse().status
    connection.close()
    return status


def idle(of: MetricsServer, sent: bytes = b"") -> socket.socket:
    """A connection that has sent this, and no more."""
    made = socket.create_connection(("127.0.0.1", of.port), 10)
    made.sendall(sent)
    return made


@pytest.mark.parametrize("sent", [b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nx: "])
def test_connections_that_say_nothing_are_bounded_and_hinder_no_probe(sent: bytes) -> None:
    with server(exposition()) as served, ExitStack() as held:
        before = len(os.listdir("/proc/self/fd"))
        ours = 3 * MOST_CONNECTIONS  # those of the server would be as many, were they not bounded
        for _ in range(ours):
            held.enter_context(idle(served, sent))
        assert probe(served) == 503
        opened = len(os.listdir("/proc/self/fd")) - before  # of other threads a few, too
        assert opened < ours + 2 * MOST_CONNECTIONS


def test_a_connection_has_its_time_and_no_more() -> None:
    clock, of = ManualClock(), exposition()
    with (
        MetricsServer(registry(of), of.alive, of.ready, 0, clock=clock) as served,
        idle(served) as silent,
        idle(served, b"GET /he") as half,
    ):
        assert probe(served) == 503  # so both are accepted
        clock.advance(MOST_MS)
        assert [silent.recv(1), half.recv(1)] == [b"", b""]


def test_without_another_wish_only_this_machine_is_served() -> None:
    of = exposition()
    with MetricsServer(registry(of), of.alive, of.ready, 0) as served:
        assert served.address == ("127.0.0.1", served.port)
        assert served.url == f"http://127.0.0.1:{served.port}"
