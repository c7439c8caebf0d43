"""A function that blocks for longer than its member may be silent."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from streamlet.kafka.client import KafkaSink
from streamlet.kafka.ports import OutgoingRecords
from tests.integration.chaos.checks import assert_counts_exact, contents
from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load
from tests.integration.chaos.topologies import BLOCKED, _block

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

STILL = "the worker stands still for"


def test_a_function_that_blocks_is_reported_while_it_does(
    make_cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With its line, task, operator and records; once, and then at growing intervals."""
    blocked = tmp_path / "blocked"
    blocked.touch()
    monkeypatch.setenv(BLOCKED, str(blocked))
    cluster = make_cluster("blocking", max_poll_interval_ms="3000")
    load = Load(cluster.servers, cluster.topic("in"))
    load.send(500)
    load.flush()
    instance = cluster.instance("a").start()
    cluster.await_settled()

    sink = KafkaSink(cluster.servers)
    sink.send(OutgoingRecords(cluster.topic("in"), [b"k0"], [(-1).to_bytes(8, signed=True)]))
    sink.flush(30_000)
    sink.close()
    wait_for(lambda: len(reports(instance)) >= 2, instance.log)
    first, second, *_ = reports(instance)
    lines = _block.__code__.co_firstlineno + 1, _block.__code__.co_firstlineno + 2
    at = rf"topologies\.py:({lines[0]}|{lines[1]}) in _block, `.*`"
    where = rf"task 0_\d, operator KSTREAM-MAPVALUES-\d+, records of {cluster.topic('in')}-\d"
    for line in (first, second):
        assert re.search(rf"{STILL} [\d.]+ s, .*max\.poll\.interval\.ms.*{at}, {where}, off", line)
    took = [float(line.partition(STILL)[2].split()[0]) for line in (first, second)]
    assert took[0] >= 3
    assert took[1] > 2 * took[0] - 0.16, "both are rounded to tenths"

    blocked.unlink()
    wait_for(lambda: "the worker goes on, after" in instance.log(), instance.log)
    load.send(500)
    true = load.finish()
    true["k0"] += 1
    cluster.await_settled()
    assert instance.stop() == 0, instance.log()
    assert_counts_exact(cluster, contents(cluster, [instance]), true)


def reports(instance: Instance) -> list[str]:
    """What was said of the function; a machine that stands still makes the worker do so, too."""
    lines = instance.log().splitlines()
    return [line for line in lines if STILL in line and "in _block" in line]
