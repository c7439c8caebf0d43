"""When owners begin that one plan tells to give up tasks."""

from __future__ import annotations

from streamlet.assignor.path import FIRST_RELEASE_MS, RELEASES_MS, release_delays
from streamlet.assignor.values import MemberPlan
from streamlet.types import TaskId


def plans(owners: int) -> dict[str, MemberPlan]:
    """So many that release a task each, and two that do not."""
    giving = {
        f"m{number}": MemberPlan(release={TaskId(0, number): "n"}) for number in range(owners)
    }
    staying = MemberPlan(active=frozenset({TaskId(1, 0)}))
    return {**giving, "l": staying, "n": staying}


def test_turns_are_as_far_apart_as_there_is_time() -> None:
    assert release_delays(plans(4)) == {
        f"m{number}": FIRST_RELEASE_MS + number * RELEASES_MS // 4 for number in range(4)
    }


def test_one_owner_alone_begins_first() -> None:
    assert release_delays(plans(1)) == {"m0": FIRST_RELEASE_MS}


def test_the_turns_of_very_many_take_no_longer() -> None:
    delays = release_delays(plans(3_000)).values()
    assert (min(delays), max(delays) < FIRST_RELEASE_MS + RELEASES_MS) == (FIRST_RELEASE_MS, True)


def test_whoever_releases_nothing_has_no_turn() -> None:
    assert release_delays(plans(0)) == {}
