"""Stores of the latest keys and of a user's own: learned, handed over and restored."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.chaos.checks import await_share, contents, go_on
from tests.integration.chaos.own_stores import LATEST_KEYS
from tests.integration.chaos.support import Cluster
from tests.integration.chaos.topics import Load, read_all
from tests.integration.learners.scenes import (
    ACTIVATING,
    TALKATIVE,
    assert_settled,
    await_owners,
    catch,
)

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_they_have_the_same_rows_wherever_their_task_goes(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Some tasks go to an instance that learned them; it restores the others when that is lost."""
    cluster = make_cluster("own_stores")
    first, second = (cluster.instance(name, more=TALKATIVE) for name in "ab")
    first.start()
    with Load(cluster.servers, cluster.topic("in"), rate=500) as load:
        cluster.await_running()
        catch(ACTIVATING, first, second)
        await_share(cluster, second)
        go_on(load, 2)
        first.kill()
        await_owners(cluster, second)
        go_on(load, 2)
        assert_settled(cluster)
        load.finish()
        cluster.await_settled()
        assert second.stop() == 0, cluster.logs()
    copies = contents(cluster, [second])
    for task in cluster.tasks:
        latest: dict[bytes, int] = {}
        places: dict[bytes, int] = {}
        for record in read_all(cluster.servers, cluster.topic("in"), [task.partition]):
            latest.pop(record.key, None)
            latest[record.key] = record.number
            places.setdefault(record.key, len(places) + 1)
        kept = {
            name: {key: int.from_bytes(raw, "big") for key, raw in rows.items()}
            for name, rows in copies[task].entries.items()
        }
        assert kept == {"latest": dict([*latest.items()][-LATEST_KEYS:]), "places": places}
