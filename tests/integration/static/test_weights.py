"""Capacity, band and tags of a running application change by the restart of one instance."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.chaos.checks import assert_counts_exact, contents
from tests.integration.chaos.support import Cluster, wait_for
from tests.integration.chaos.topics import SLOW_BEAT_S, Load
from tests.integration.static.groups import PATIENT, Seen, Watcher, static, watching

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def loads(seen: Seen) -> dict[str, int]:
    return {member: len(tasks) for member, tasks in seen.tasks.items()}


def test_capacity_band_and_tags_change_by_the_restart_of_one_instance(
    make_cluster: Callable[..., Cluster],
) -> None:
    """It is a follower and static: the coordinator says nothing of its new settings to anybody."""
    wide = {"stream_imbalance_percentage": "0.9"}
    cluster = make_cluster("counting", session_timeout_ms=PATIENT, **wide)
    a, b = static(cluster, "a"), static(cluster, "b")
    with (
        Load(cluster.servers, cluster.topic("in"), rate=200, beat_s=SLOW_BEAT_S) as load,
        watching(cluster) as group,
    ):
        a.start()
        cluster.await_running()
        b.start()
        before = group.settled("a-0", "b-0")
        assert loads(before) == {"a-0": 7, "b-0": 1}

        b.stop()
        more = ("--instance-id", "b", "--capacity", "2", "--tag", "zone=x")
        heavier = cluster.instance("b", state_of=b, more=more).start()
        seen = await_loads(group, {"a-0": 5, "b-0": 3})
        assert set(seen.tasks["b-0"]) > set(before.tasks["b-0"]), "2.7 are a's share; it gives two"
        (told,) = (i for i in group.look()["instances"] if i["name"] == "b")
        assert (told["capacity"], told["tags"]) == (2.0, {"zone": "x"})

        heavier.stop()
        more = (*more, "--set", "stream.imbalance.percentage=0")
        strict = cluster.instance("b", state_of=b, more=more).start()
        narrow = await_loads(group, {"a-0": 3, "b-0": 5})
        assert set(narrow.tasks["b-0"]) > set(seen.tasks["b-0"])
        assert group.look()["group"]["leader"] == "a-0"
        true = load.finish()
    cluster.await_settled()
    assert [a.stop(), strict.stop()] == [0, 0], cluster.logs()
    assert_counts_exact(cluster, contents(cluster, [a, strict]), true)


def await_loads(group: Watcher, wanted: dict[str, int]) -> Seen:
    """The group at rest once the members have so many tasks each."""
    last: list[Seen] = []

    def there() -> Seen | None:
        last[:] = [group.settled(*wanted)]
        return last[0] if loads(last[0]) == wanted else None

    return wait_for(there, lambda: f"{wanted}: {last}\n{group.cluster.logs()}")
