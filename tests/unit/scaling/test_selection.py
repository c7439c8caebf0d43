"""Whom a command means; what cannot be is said before anybody is marked."""

from __future__ import annotations

import pytest

from streamlet.admin.snapshot import InstanceSnapshot
from streamlet.errors import ConfigError, NotFoundError, RefusedError
from streamlet.scaling.leavers import Burden
from streamlet.scaling.replace import Replacement
from streamlet.scaling.scale_down import ScaleDownRequest
from streamlet.scaling.selection import by_percent, check_some_stay, find
from streamlet.types import TaskId


def instance(name: str, key: str = "") -> InstanceSnapshot:
    return InstanceSnapshot(key or f"process-{name}", name, ())


THREE = (instance("h1"), instance("h2"), instance("h3"))
EVEN = {one.key: Burden({TaskId(0, n): 1}) for n, one in enumerate(THREE)}


def test_instances_are_found_by_name_and_by_process_id() -> None:
    assert find(THREE, ["h2", "process-h1", "h1"]) == (THREE[1], THREE[0])


def test_one_unknown_name_finds_nobody_and_is_told_with_those_there_are() -> None:
    with pytest.raises(NotFoundError, match=r"called h7; those that run are: h1, h2, h3\. Nothing"):
        find(THREE, ["h1", "h7"])


def test_a_name_that_two_bear_has_to_be_said_otherwise() -> None:
    twins = (instance("h1", "a"), instance("h1", "b"))
    with pytest.raises(RefusedError, match="process id: a, b"):
        find(twins, ["h1"])
    assert find(twins, ["b"]) == (twins[1],)


def test_the_beginning_of_a_process_id_tells_two_of_one_name_apart() -> None:
    twins = (instance("h1", "0123456789"), instance("h1", "0123456999"), instance("h2", "x"))
    assert find(twins, ["01234569"]) == (twins[1],)
    with pytest.raises(RefusedError, match=r"called 01234567; .* process id: 01234567\d"):
        find((*twins, instance("h3", "0123456700")), ["01234567"])
    with pytest.raises(NotFoundError, match=r"run are: h1 \(01234567\), h1 \(01234569\), h2\."):
        find(twins, ["0123456"])  # too short to mean one


def test_a_percentage_marks_the_last_of_equals() -> None:
    assert by_percent(THREE, EVEN, 60, ()) == ["process-h3"]


def test_two_of_one_name_are_told_apart() -> None:
    twins = (instance("h1", "a"), instance("h1", "b"))
    burdens = {"a": Burden({TaskId(0, 0): 1}), "b": Burden({TaskId(0, 1): 5})}
    assert by_percent(twins, burdens, 50, ()) == ["a"]


def test_the_same_percentage_again_marks_nobody_else() -> None:
    assert by_percent(THREE, EVEN, 60, ["process-h1"]) == ["process-h1"]
    assert by_percent(THREE, EVEN, 100, ["process-h1"]) == ["process-h1"]


def test_a_smaller_percentage_waits_until_those_on_their_way_are_gone() -> None:
    with pytest.raises(RefusedError, match="h1 is leaving already: 30 % would be of 3 instances"):
        by_percent(THREE, EVEN, 30, ["process-h1"])


def test_not_all_may_leave_unless_asked_for_twice() -> None:
    everybody = [one.key for one in THREE]
    with pytest.raises(RefusedError, match="none would go on"):
        check_some_stay(THREE, everybody, asked_twice=False)
    check_some_stay(THREE, everybody, asked_twice=True)
    check_some_stay(THREE, everybody[1:], asked_twice=False)


@pytest.mark.parametrize("percent", [0, -1, 100.5, float("nan"), float("inf")])
def test_a_percentage_out_of_range_is_refused(percent: float) -> None:
    with pytest.raises(ConfigError, match="above 0 and up to 100"):
        ScaleDownRequest(percent).check()


def test_either_a_percentage_or_names() -> None:
    for wrong in (ScaleDownRequest(), ScaleDownRequest(50, ("h1",))):
        with pytest.raises(ConfigError, match="say either"):
            wrong.check()
    assert ScaleDownRequest(names=("h1",)).check()


def test_a_swap_needs_two_sides() -> None:
    for wrong in (Replacement((), ("h1",)), Replacement(("h1",), ())):
        with pytest.raises(ConfigError, match="which instances"):
            wrong.check()
    with pytest.raises(ConfigError, match="h2 cannot be both"):
        Replacement(("h1", "h2"), ("h2", "h3")).check()


@pytest.mark.parametrize(("count", "who"), [(1, "the only instance"), (3, "all 3 instances")])
def test_who_would_leave_is_counted(count: int, who: str) -> None:
    leaving = {one.key for one in THREE}
    with pytest.raises(RefusedError, match=f"^{who} would leave and none would go on"):
        check_some_stay(THREE[:count], leaving, asked_twice=False)
