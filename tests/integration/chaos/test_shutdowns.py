"""An error handler that shuts the application down: every instance ends, a later start runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streamlet.kafka.client import KafkaSink
from streamlet.kafka.ports import OutgoingRecords
from tests.integration.chaos.checks import assert_counts_exact, contents
from tests.integration.chaos.support import LONG_SESSIONS, Cluster
from tests.integration.chaos.topics import Load
from tests.integration.chaos.topologies import HEALED
from tests.integration.learners.scenes import await_owners
from tests.integration.scaling.commands import operate

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_one_poisoned_record_ends_all_instances_and_a_later_start_runs(
    make_cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    healed = tmp_path / "healed"
    monkeypatch.setenv(HEALED, str(healed))
    cluster = make_cluster("poisoned", **LONG_SESSIONS)
    load = Load(cluster.servers, cluster.topic("in"))
    load.send(1_000)
    instances = [cluster.instance(name).start() for name in ("a", "b")]
    await_owners(cluster, *instances)  # who starts behind a shutdown does not heed it
    cluster.await_settled()

    sink = KafkaSink(cluster.servers)
    sink.send(OutgoingRecords(cluster.topic("in"), [b"k0"], [(-1).to_bytes(8, signed=True)]))
    sink.flush(30_000)
    sink.close()
    assert [one.wait() for one in instances] == [7, 7], cluster.logs()
    asked = [one for one in instances if "answer of uncaught_handler" in one.log()]
    assert len(asked) == 1, "the other one was told"
    for one in instances:
        assert f"as uncaught_handler of {asked[0].name} answered to: " in one.log()
    shutdown = operate(cluster, "status", cluster.name).document["shutdown"]
    assert shutdown["by"] == asked[0].name
    assert "ValueError: poisoned" in shutdown["reason"]

    healed.touch()
    for one in instances:
        one.start()
    load.send(1_000)
    true = load.finish()
    true["k0"] += 1
    cluster.await_settled()
    assert [one.stop() for one in instances] == [0, 0], cluster.logs()
    assert_counts_exact(cluster, contents(cluster, instances), true)
