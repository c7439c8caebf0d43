"""``streamlet replace``: hosts are swapped, the leader's too, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlet import App
from streamlet.errors import NotFoundError
from tests.integration.chaos.support import LONG_SESSIONS, Cluster
from tests.integration.chaos.topics import SLOW_BEAT_S, Load
from tests.integration.learners.scenes import assert_exact_in_the_end
from tests.integration.scaling.commands import (
    answer,
    assert_left_well,
    await_band,
    await_words,
    begin,
    operate,
)

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_new_hosts_take_over_from_old_ones(make_cluster: Callable[..., Cluster]) -> None:
    """The command waits for those that come; both that go have led, or follow one another.

    Then a program has one of the new ones give all it has to the other.
    """
    cluster = make_cluster("counting", **LONG_SESSIONS)
    old = [cluster.instance("h1").start()]
    cluster.await_running()
    old.append(cluster.instance("h2").start())
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
        await_band(cluster, old)
        swap = ("--old", "h1", "--old", "h2", "--new", "h3", "--new", "h4", "--yes", "--json")
        process = begin(cluster, "replace", cluster.name, *swap)
        await_words(process, "waiting for h3, h4 to join, for ")
        new = [cluster.instance(name).start() for name in ("h3", "h4")]
        found = answer(process)
        assert found.code == 0, (found, cluster.logs())
        assert found.document["done"] is True
        assert found.document["violations"] == []
        assert found.document["tasks"] == {"h3": 4, "h4": 4}
        assert_left_well(old, new)
        assert {move["from"].split("-")[0] for move in found.document["moves"]} <= {"h1", "h2"}

        again = operate(cluster, "replace", cluster.name, *swap[:-1])
        assert (again.code, "no instance is called h1 or h2" in again.error) == (3, True)

        app = App(cluster.name, bootstrap_servers=cluster.servers)
        with pytest.raises(NotFoundError, match="no instance is called h1"):
            app.replace(old=["h1"], new=["h4"])
        done = app.replace(old=["h3"], new=["h4"])
        assert (done.done, done.tasks, done.violations) == (True, {"h4": 8}, ())
        assert_left_well(new[:1], new[1:])
        assert_exact_in_the_end(cluster, new[1:], load)
