"""The assignors of the examples, as the functions they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from examples.consumer_canary import canary
from examples.consumer_lag_based import lag_based
from streamlet.consumer import ConsumerMember
from streamlet.partitions.leader import checked
from streamlet.types import TopicPartition


def t(*numbers: int) -> list[TopicPartition]:
    return [TopicPartition("t", n) for n in numbers]


def member(name: str, *owned: int, release: str = "stable") -> ConsumerMember:
    return ConsumerMember(name, frozenset({"t"}), frozenset(t(*owned)), None, {"release": release})


@pytest.mark.parametrize(("partitions", "tried"), [(3, 1), (20, 2), (44, 4)])
def test_canaries_get_a_tenth_and_at_least_one(partitions: int, tried: int) -> None:
    members = [member("a"), member("b"), member("c", release="canary")]
    everything = t(*range(partitions))
    found = checked(canary()(members, everything), members, everything)
    assert len(found["c"]) == tried
    assert abs(len(found["a"]) - len(found["b"])) <= 1


def test_canaries_keep_what_they_have() -> None:
    members = [member("a", *range(18)), member("c", 18, 19, release="canary")]
    assert canary()(members, t(*range(20)))["c"] == t(18, 19)


@pytest.mark.parametrize("release", ["canary", "stable"])
def test_without_a_canary_or_without_others_all_are_alike(release: str) -> None:
    members = [member("a", release=release), member("b", release=release)]
    found = canary()(members, t(0, 1, 2, 3))
    assert sorted(len(list(mine)) for mine in found.values()) == [2, 2]


def test_the_busiest_partition_has_a_member_to_itself() -> None:
    lags = dict(zip(t(0, 1, 2, 3), [900, 300, 300, 300], strict=True))
    members = [member("a"), member("b")]
    found = lag_based(lambda partitions: lags)(members, t(0, 1, 2, 3))
    assert {frozenset(mine) for mine in found.values()} == {frozenset(t(0)), frozenset(t(1, 2, 3))}


def test_what_is_even_enough_stays_where_it_is() -> None:
    lags = dict(zip(t(0, 1, 2, 3), [100, 120, 110, 105], strict=True))
    members = [member("a", 0, 1), member("b", 2, 3)]
    found = checked(
        lag_based(lambda partitions: lags)(members, t(0, 1, 2, 3)), members, t(0, 1, 2, 3)
    )
    assert found == {"a": frozenset(t(0, 1)), "b": frozenset(t(2, 3))}


def test_the_assignor_of_the_manual_does_what_it_says() -> None:
    """Spares get nothing as long as there are others."""
    page = Path(__file__).parents[2] / "docs" / "consumer.md"
    (code,) = re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    names: dict[str, Any] = {}
    exec(code, names)
    spare = ConsumerMember("b", frozenset({"t"}), tags={"role": "spare"})
    members = [member("a"), spare]
    found = checked(names["assignor"](members, t(0, 1)), members, t(0, 1))
    assert found == {"a": frozenset(t(0, 1)), "b": frozenset()}
    assert names["assignor"]([spare], t(0))["b"] == t(0)
