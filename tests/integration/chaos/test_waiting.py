"""Every shape of topology is exact behind its repartitions, whatever fails.

One command for a long run; ``--minutes`` and seeds of its own::

    python -m tests.integration.chaos.test_waiting --minutes 5 --seeds 1 2 3
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable

import pytest

from streamlet.control.topic import is_control_topic
from streamlet.testing import FaultProxy, KafkaBroker
from tests.integration.chaos.deliveries import DeliveryFailures
from tests.integration.chaos.faults import Faults
from tests.integration.chaos.forger import Forger
from tests.integration.chaos.support import PARTITIONS, Cluster
from tests.integration.chaos.topics import Load
from tests.integration.chaos.waiting import KEYS
from tests.integration.chaos.waiting_checks import fill_tables, wrong_stores

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

MINUTES = "STREAMLET_CHAOS_MINUTES"
SHORT = (Faults.kill_worker, Faults.add_host, Faults.kill_host)
LONG = (
    *SHORT,
    Faults.freeze,
    Faults.freeze_host,
    Faults.lose_host,
    Faults.restart_broker,
    Faults.stop_host,
)
#: One batch of so many is not delivered as it should.
ONE_OF = 60
#: A record whose answer is lost times out: shorter than a producer waits for an answer.
RETRY = ("--set", "producer.request.timeout.ms=2000", "--set", "producer.message.timeout.ms=6000")


def test_every_shape_is_exact_whatever_fails(
    make_cluster: Callable[..., Cluster], kafka_broker: KafkaBroker, seed: int
) -> None:
    """A shop, charts, joins in a row, foreign keys, calls, functions that are never the same.

    Another program writes in the name of their tasks meanwhile.
    """
    minutes = float(os.environ.get(MINUTES, "0"))
    cluster = make_cluster("waiting", partitions=PARTITIONS if minutes else 2)
    fill_tables(cluster)
    dice, wanted = random.Random(seed), LONG if minutes else SHORT
    with FaultProxy(cluster.servers, seed=seed) as proxy:
        through = ("--bootstrap-servers", proxy.bootstrap_servers, *RETRY)
        faults = Faults(cluster, kafka_broker, dice, through)
        cluster.await_settled()  # from here on each record meets its rows
        failing = DeliveryFailures(
            proxy,
            lambda topic: topic.startswith(cluster.name) and not is_control_topic(topic),
            1 / ONE_OF,
        )
        rows = Load(cluster.servers, cluster.topic("rows"), keys=KEYS, rate=50, seed=seed)
        load = Load(cluster.servers, cluster.topic("in"), keys=KEYS, rate=500, seed=seed)
        with rows, load, Forger(cluster, seed) as forger:
            until = time.monotonic() + minutes * 60
            while not faults.made or time.monotonic() < until:
                for fault in dice.sample(wanted, len(wanted)):
                    faults.make(fault)
            failing.end()
            rows.finish()
            load.finish()
        cluster.await_settled()
        assert [one.stop() for one in faults.instances] == [0] * len(faults.instances)
    made = f"deliveries: {failing.kinds}, forged: {forger.words}"
    print(f"{load.total} records, {dict(faults.made)}, {made}")
    assert forger.words > 100
    assert "counts for nothing" in cluster.logs()
    assert {fault.__name__ for fault in wanted} <= faults.made.keys()
    assert not wrong_stores(cluster, faults.instances)
    if minutes:
        assert sum(failing.kinds.values()) > 10


def main() -> int:
    """Run it for some time with each seed; the exit code of the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options = parser.parse_args()
    os.environ[MINUTES] = str(options.minutes)
    limit_s = options.minutes * 60 + 1_800
    for seed in options.seeds:
        os.environ["STREAMLET_CHAOS_SEED"] = str(seed)
        if code := pytest.main(
            ["-s", "-p", "no:cacheprovider", "-o", f"timeout={limit_s}", __file__]
        ):
            return int(code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
