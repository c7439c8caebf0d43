"""Deliveries that fail on purpose: nothing is lost and nothing counts twice, in any store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlet.control.topic import is_control_topic
from streamlet.testing import FaultProxy
from tests.integration.chaos.chained import assert_all_exact, rows_of_digits
from tests.integration.chaos.deliveries import FAILURES, DeliveryFailures
from tests.integration.chaos.support import Cluster, wait_for
from tests.integration.chaos.topics import Load

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

#: One batch of so many fails.
ONE_OF = 75
#: So often is each kind of failure made, at least, and so often to repartition topics in all.
EACH, REPARTITIONS = 5, 20
#: Shorter than a producer waits for an answer, so that a record whose answer is lost times out.
RETRY = ("--set", "producer.request.timeout.ms=2000", "--set", "producer.message.timeout.ms=6000")


def test_failed_deliveries_lose_nothing_and_count_nothing_twice(
    make_cluster: Callable[..., Cluster], seed: int, rounds: int
) -> None:
    """Batches to changelogs, repartition topics and outputs; one instance has no such trouble."""
    cluster = make_cluster("chained", repartition_exact="true")
    rows_of_digits(cluster)
    with FaultProxy(cluster.servers, seed=seed) as proxy:
        through = ("--bootstrap-servers", proxy.bootstrap_servers, *RETRY)
        instances = [
            cluster.instance("a", 2, more=through).start(),
            cluster.instance("b", 1).start(),
        ]
        cluster.await_settled()  # from here on each event meets a row
        failures = DeliveryFailures(
            proxy,
            lambda topic: topic.startswith(cluster.name) and not is_control_topic(topic),
            1 / ONE_OF,
        )
        with Load(cluster.servers, cluster.topic("in"), rate=1_000, seed=seed) as load:
            wait_for(
                lambda: _enough(failures, rounds),
                lambda: f"enough failures: {failures.kinds}\n{cluster.logs()}",
                timeout_s=60.0 * rounds,
            )
            failures.end()
            true = load.finish()
        cluster.await_settled()
        assert [one.stop() for one in instances] == [0, 0], cluster.logs()
    assert_all_exact(cluster, instances, true)
    print(f"{load.total} records, {failures.kinds}")


def _enough(failures: DeliveryFailures, rounds: int) -> bool:
    """True once each kind was made often enough, and repartition topics met enough of them."""
    kinds = failures.kinds
    met = sum(n for topic, n in failures.topics.items() if topic.endswith("-repartition"))
    wanted = max(1, rounds // 6)
    return all(kinds[kind] >= EACH * wanted for kind in FAILURES) and met >= REPARTITIONS * wanted
