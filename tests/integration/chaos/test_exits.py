"""User code that ends its process: no code of its own decides about the worker or the instance."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from streamlet.kafka.client import KafkaSink
from streamlet.kafka.ports import OutgoingRecords
from tests.integration.chaos import topologies
from tests.integration.chaos.checks import assert_counts_exact, contents
from tests.integration.chaos.support import Cluster, wait_for
from tests.integration.chaos.topics import Load
from tests.integration.chaos.topologies import EXIT, EXITED

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

#: What the log says of each way to exit; no process code decides that the instance ends.
SAID = {
    "sys.exit 0": r"{line}: SystemExit: 0; a record failed at {topic}-\d offset \d+, operator K",
    "sys.exit 5": r"{line}: SystemExit: 5; a record failed at {topic}-\d offset \d+, operator K",
    "os._exit 0": r"worker \d ended \(exit code 0 without a report of its end",
    "os._exit 6": r"worker \d ended \(exit code 6 without a report of its end",
}


@pytest.mark.parametrize("how", SAID)
def test_a_function_that_exits_fails_its_worker_which_starts_again(
    make_cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    monkeypatch.setenv(EXIT, how)
    monkeypatch.setenv(EXITED, str(tmp_path / "exited"))
    cluster = make_cluster("exiting")
    load = Load(cluster.servers, cluster.topic("in"))
    load.send(1_000)
    instance = cluster.instance("a", processes=2).start()
    cluster.await_settled()
    before = instance.workers()

    sink = KafkaSink(cluster.servers)
    sink.send(OutgoingRecords(cluster.topic("in"), [b"k0"], [(-1).to_bytes(8, signed=True)]))
    sink.flush(30_000)
    sink.close()
    wait_for(
        lambda: "starting it again" in instance.log(), lambda: f"it is noticed\n{cluster.logs()}"
    )
    load.send(1_000)
    true = load.finish()
    true["k0"] += 1
    cluster.await_settled()

    assert len(set(before) & set(instance.workers())) == 1, "only one worker has ended"
    line = rf"{Path(topologies.__file__).name}:\d+ in \w+, `.*`"
    said = SAID[how].format(line=line, topic=cluster.topic("in"))
    assert re.search(said, instance.log()), instance.log()
    assert instance.stop() == 0, instance.log()
    assert_counts_exact(cluster, contents(cluster, [instance]), true)
