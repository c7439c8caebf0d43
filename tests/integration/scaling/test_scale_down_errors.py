"""What cannot be is said with its exit code, and marks nobody."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.chaos.support import LONG_SESSIONS, Cluster
from tests.integration.scaling.commands import await_band, marks, operate, scale_down

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_what_cannot_be_marks_nobody(make_cluster: Callable[..., Cluster]) -> None:
    """Against two instances that run; then against one application that does not."""
    cluster = make_cluster("counting", initial_assignment_delay_ms="10000", **LONG_SESSIONS)
    a, b = cluster.instance("a", 0).start(), cluster.instance("b", 0).start()
    await_band(cluster, [a, b])
    for words, code, says in REFUSED:
        found = scale_down(cluster, *words)
        assert (found.code, says in found.error) == (code, True), (words, found)
        assert found.document["error"]["exit_code"] == code
        assert marks(cluster) == [], words

    found = scale_down(cluster, "--percent", "50", "--dry-run")
    assert (found.code, found.document["done"]) == (0, False)
    assert len(found.document["leaving"]) == 1
    assert len(found.document["moves"]) == 4
    assert "4 stateful tasks to move" in found.told
    found = scale_down(cluster, "--percent", "100", "--yes")
    assert (found.code, found.document["leaving"], found.document["done"]) == (0, [], True)
    found = scale_down(cluster, "--cancel")
    assert (found.code, found.document["leaving"], found.document["done"]) == (0, [], True)
    found = operate(cluster, "replace", cluster.name, *SWAP, "--join-timeout", "1s", "--yes")
    assert (found.code, "c did not join" in found.error) == (4, True)
    for words in (("--percent", "50"), ("--cancel",)):
        found = operate(cluster, "scale-down", "no-such-application", *words)
        assert (found.code, "there is no application" in found.error) == (3, True), words
    assert marks(cluster) == []

    found = scale_down(cluster, "--name", "a", "--name", "b", "--yes", "--yes", "--wait")
    assert (found.code, found.document["staying"], found.document["done"]) == (0, [], True)
    assert (a.wait(), b.wait()) == (0, 0)
    found = scale_down(cluster, "--percent", "50", "--yes")
    assert (found.code, "is not running" in found.error) == (3, True)


SWAP = ("--old", "a", "--new", "c")
REFUSED = (
    (("--name", "z", "--name", "a", "--yes"), 3, "no instance is called z"),
    (("--name", "a", "--name", "b", "--yes"), 5, "none would go on"),
    (("--percent", "0", "--yes"), 2, "above 0 and up to 100"),
    (("--percent", "101", "--yes"), 2, "above 0 and up to 100"),
    (("--percent", "NaN", "--yes"), 2, "above 0 and up to 100"),
    (("--name", "", "--yes"), 2, "--name is empty"),
    (("--yes",), 2, "say either"),
    (("--percent", "50", "--name", "a", "--yes"), 2, "say either"),
    (("--name", "a", "--timeout", "soon", "--yes"), 2, "--timeout soon"),
    (("--cancel", "--percent", "50"), 2, "--cancel goes with"),
    (("--cancel", "--name", "z"), 3, "no instance is called z"),
    (("--percent", "50"), 5, "give --yes"),
)
