"""``repartition.exact`` is switched on and off again, one instance at a time, under load."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.chaos.checks import await_share, go_on
from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.test_edges import assert_all_exact, rows_of_digits
from tests.integration.chaos.topics import Load

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_a_rolling_change_and_the_way_back_count_each_record_once(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Tasks with and without prefixes write to one topic meanwhile; then a crash amid prefixes."""
    cluster = make_cluster("chained")
    rows_of_digits(cluster)
    living = [cluster.instance(name).start() for name in "ab"]
    cluster.await_settled()
    with Load(cluster.servers, cluster.topic("in"), rate=500) as load:
        for exact in ("true", "false"):
            for at in range(2):
                living[at] = restarted(cluster, living[at], exact)
                await_share(cluster, living[at])
            go_on(load)
            if exact == "true":
                living[0].kill()
                living[0].start()
                await_progress(cluster)
        true = load.finish()
    cluster.await_settled()
    assert [one.stop() for one in living] == [0, 0], cluster.logs()
    assert_all_exact(cluster, living, true)


def await_progress(cluster: Cluster) -> None:
    """Wait until what is there now was committed, also by who took over from the dead."""
    ends = cluster.admin.end_offsets(cluster.inputs)
    wait_for(
        lambda: all(one.offset >= ends[tp] for tp, one in cluster.committed().items()),
        lambda: f"all tasks go on\n{cluster.logs()}",
    )


def restarted(cluster: Cluster, old: Instance, exact: str) -> Instance:
    """Its successor on the same folder, with the other setting."""
    assert old.stop() == 0, old.log()
    more = ("--set", f"repartition.exact={exact}")
    return cluster.instance(old.name, state_of=old, more=more).start()
