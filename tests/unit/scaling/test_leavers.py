"""Who leaves when only a share of the instances is to stay."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from streamlet.scaling import leavers
from streamlet.scaling.leavers import Burden, choose_leavers, cost, in_order
from streamlet.types import TaskId


def running(*sizes: int, sub: int = 0) -> Burden:
    """An instance with tasks of these sizes."""
    return Burden({TaskId(sub, number): size for number, size in enumerate(sizes)})


@pytest.mark.parametrize(
    ("instances", "percent", "leaving"),
    [(40, 80, 8), (3, 40, 1), (3, 1, 2), (1, 1, 0), (10, 100, 0), (10, 99.9, 0), (10, 0.5, 9)],
)
def test_so_many_percent_stay_rounded_up_and_at_least_one(
    instances: int, percent: float, leaving: int
) -> None:
    burdens = {f"i{number}": running(1, sub=number) for number in range(instances)}
    assert len(choose_leavers(burdens, percent)) == leaving


def test_those_go_whose_state_is_least() -> None:
    burdens = {
        name: running(size, sub=sub)
        for sub, (name, size) in enumerate({"a": 5, "b": 1, "c": 9, "d": 0}.items())
    }
    assert choose_leavers(burdens, 50) == ["b", "d"]


def test_of_equals_the_last_ones_go_as_people_count() -> None:
    burdens = {f"h{number}": running(7, sub=number) for number in range(1, 12)}
    assert choose_leavers(burdens, 80) == ["h10", "h11"]


def test_of_equal_states_the_one_in_fewer_tasks_goes() -> None:
    burdens = {"a": running(6), "b": running(3, 3, sub=1)}
    assert choose_leavers(burdens, 50) == ["a"]


def test_a_task_with_a_warm_copy_elsewhere_costs_nothing() -> None:
    big, small = TaskId(0, 0), TaskId(0, 1)
    burdens = {
        "a": Burden({big: 1_000}),
        "b": Burden({small: 10}),
        "c": Burden({}, keeps={big: 1_000}),
    }
    assert choose_leavers(burdens, 60) == ["a"]


def test_warm_copies_that_leave_have_to_be_made_again() -> None:
    task = TaskId(0, 0)
    burdens = {"a": Burden({task: 100}), "b": Burden(keeps={task: 100}), "c": Burden()}
    assert choose_leavers(burdens, 60) == ["c"]
    # Both ends of a pair at once: its state has to be copied twice.
    assert cost(burdens, {"a", "b"}) == (200, 1)


def test_those_on_their_way_count_as_leavers() -> None:
    burdens = {f"h{number}": running(number, sub=number) for number in range(1, 5)}
    assert choose_leavers(burdens, 50, already=["h4"]) == ["h1", "h4"]
    assert choose_leavers(burdens, 75, already=["h3", "h4"]) == ["h3", "h4"]


def some_burdens(dice: random.Random, instances: int) -> dict[str, Burden]:
    burdens = {f"h{number}": Burden({}, {}) for number in range(instances)}
    for number in range(dice.randint(instances, 4 * instances)):
        task, size = TaskId(0, number), dice.choice([0, 1, 5, 100])
        owner, keeper = dice.sample(sorted(burdens), 2)
        dict.__setitem__(burdens[owner].runs, task, size)  # type: ignore[index]
        if dice.random() < 0.7:
            dict.__setitem__(burdens[keeper].keeps, task, size)  # type: ignore[index]
    return burdens


@pytest.mark.parametrize("seed", range(30))
def test_few_choices_are_all_compared(seed: int) -> None:
    burdens = some_burdens(random.Random(seed), 6)
    best = min(cost(burdens, frozenset(some)) for some in combinations(burdens, 3))
    assert cost(burdens, frozenset(choose_leavers(burdens, 50))) == best


@pytest.mark.parametrize("seed", range(30))
def test_one_at_a_time_each_adds_least(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    burdens = some_burdens(random.Random(seed), 8)
    monkeypatch.setattr(leavers, "_CHOICES_COMPARED", 0)
    chosen: set[str] = set()
    for percent in (80, 70, 60, 50, 40, 30, 20, 10):
        more = set(choose_leavers(burdens, percent)) - chosen
        for _ in more:
            rest = {name: cost(burdens, chosen | {name}) for name in burdens if name not in chosen}
            best = min(rest.values())
            [picked] = [n for n in more - chosen if rest[n] == best][:1] or pytest.fail("not least")
            chosen.add(picked)


def test_the_choice_does_not_depend_on_the_order_of_names() -> None:
    burdens = some_burdens(random.Random(3), 9)
    names = sorted(burdens)
    random.Random(5).shuffle(names)
    assert choose_leavers({name: burdens[name] for name in names}, 60) == choose_leavers(
        burdens, 60
    )
    assert in_order(["h10", "h9", "a"]) == ["a", "h9", "h10"]
