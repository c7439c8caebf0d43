"""Records that wait for the commit of the task that wrote them count once, whatever fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.integration.chaos.checks import await_share, contents, counts_of, go_on
from tests.integration.chaos.support import Cluster
from tests.integration.chaos.topics import Load

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

KEYS = 100


def test_a_stream_that_met_its_table_is_counted_once_when_an_instance_is_killed(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("shopping")
    with Load(cluster.servers, cluster.topic("names"), keys=KEYS) as rows:
        rows.send(1_000)
        rows.finish()
    a, b = (cluster.instance(name).start() for name in "ab")
    cluster.await_settled()
    with Load(cluster.servers, cluster.topic("in"), keys=KEYS, rate=2_000) as load:
        for victim in (a, b):
            go_on(load)
            victim.kill()
            victim.start()
            await_share(cluster, victim)
        go_on(load)
        true = load.finish()
    cluster.await_settled()
    assert [one.stop() for one in (a, b)] == [0, 0], cluster.logs()
    digits: Counter[str] = Counter()
    for key, count in true.items():
        digits[key[-1]] += count
    assert counts_of(contents(cluster, [a, b]), "groups") == digits
