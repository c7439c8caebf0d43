"""The form of records between tasks changes, one instance at a time, under load."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlet.processing.edges.records import MARK
from streamlet.rebalance import wire
from tests.integration.chaos.checks import await_share, go_on
from tests.integration.chaos.support import Cluster, wait_for
from tests.integration.chaos.test_edges import assert_all_exact, rows_of_digits
from tests.integration.chaos.topics import SLOW_BEAT_S, Load, read_all

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_members_that_die_amid_a_change_of_form_count_each_record_once(
    make_cluster: Callable[..., Cluster],
) -> None:
    """From origins to records that wait, and back; one form follows on the other in each task."""
    cluster = make_cluster("chained")
    rows_of_digits(cluster)
    living = [cluster.instance(name).start() for name in "ab"]
    cluster.await_settled()
    with Load(cluster.servers, cluster.topic("in"), keys=50, rate=500, beat_s=SLOW_BEAT_S) as load:
        for shape in ("varying", "chained"):
            for at in range(2):
                go_on(load)
                living[at].kill()
                living[at] = cluster.instance(
                    living[at].name, state_of=living[at], shape=shape
                ).start()
                await_share(cluster, living[at])
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
    with Load(cluster.servers, cluster.topic("in"), keys=50, rate=500, beat_s=SLOW_BEAT_S) as load:
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
