"""Prefixes come and go, one instance at a time, under load: by the setting, and by the version."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlet.processing.edges.records import MARK
from streamlet.rebalance import wire
from tests.integration.chaos.checks import await_share, go_on
from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.test_edges import assert_all_exact, rows_of_digits
from tests.integration.chaos.topics import SLOW_BEAT_S, Load, read_all

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_a_rolling_change_and_the_way_back_count_each_record_once(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Tasks with and without prefixes write to one topic meanwhile; then a crash amid prefixes."""
    cluster = make_cluster("chained", repartition_exact="false")
    rows_of_digits(cluster)
    living = [cluster.instance(name).start() for name in "ab"]
    cluster.await_settled()
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
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


def test_no_prefix_is_written_before_every_member_can_read_it(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Members of an earlier version are replaced; then a member crashes amid prefixes."""
    cluster = make_cluster("chained")
    rows_of_digits(cluster)
    before = wire.PREFIX_VERSION - 1
    living = [cluster.instance(name, latest=before).start() for name in "ab"]
    cluster.await_settled()
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
        for at in range(2):
            go_on(load)
            assert bear_prefixes(cluster) == {False}, "a member could not read them"
            assert living[at].stop() == 0, living[at].log()
            living[at] = cluster.instance(living[at].name, state_of=living[at]).start()
            await_share(cluster, living[at])
        wait_for(lambda: bear_prefixes(cluster) == {True}, "all can read them now")
        await_progress(cluster)
        living[0].kill()
        living[0].start()
        await_progress(cluster)
        true = load.finish()
    cluster.await_settled()
    assert [one.stop() for one in living] == [0, 0], cluster.logs()
    assert_all_exact(cluster, living, true)


def bear_prefixes(cluster: Cluster) -> set[bool]:
    """Whether the newest records of the repartition topics begin with the mark of a prefix."""
    mark = MARK.to_bytes(8, "little")
    newest: dict[tuple[str, int], bool] = {}
    while not newest:  # what was read is deleted after each commit
        for topic in ("merged-repartition", "digits-repartition"):
            partitions = range(cluster.partition_count)
            for record in read_all(cluster.servers, cluster.topic(topic), partitions):
                newest[topic, record.partition] = (record.value or b"").startswith(mark)
    return set(newest.values())


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
