"""Every shape of topology is exact behind its repartitions, whatever fails.

``python -m bench chaos --seed 1 --minutes 5`` makes faults of all kinds for longer.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlet.testing import KafkaBroker
from tests.integration.chaos.storm import SHORT, storm
from tests.integration.chaos.support import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_every_shape_is_exact_whatever_fails(
    make_cluster: Callable[..., Cluster], kafka_broker: KafkaBroker, seed: int
) -> None:
    """A shop, charts, joins in a row, foreign keys, calls, functions that are never the same.

    Another program writes in the name of their tasks meanwhile.
    """
    cluster = make_cluster("waiting", partitions=2)
    left = storm(cluster, kafka_broker, seed, 0, SHORT)
    print(left)
    assert left.forged > 100
    assert "counts for nothing" in cluster.logs()
    assert {fault.__name__ for fault in SHORT} <= left.faults.keys()
    assert (left.wrong, left.lost, left.ended) == ({}, [], [])
