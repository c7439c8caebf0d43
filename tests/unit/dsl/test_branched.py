"""Splits: which branch a record goes to, in which order, and what a predicate may do."""

from __future__ import annotations

from typing import Any

import pytest

import streamlet as sl
from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.branched import chosen
from streamlet.dsl.operators.branches import NumberBranches
from streamlet.errors import TopologyError
from streamlet.testing.driver import TopologyTestDriver
from tests.unit.dsl.test_stateless import Records, through


def merged(stream: sl.KStream[str, str]) -> sl.KStream[str, str]:
    """A split whose branches meet again."""
    branches = (
        stream.split()
        .branch(lambda k, v: v == "1", name="one")
        .branch(lambda k, v: v in "12", name="two")
        .default_branch(name="rest")
    )
    one, two, rest = (
        branches[name].map_values(lambda v, name=name: f"{v} {name}", value=str)
        for name in ("one", "two", "rest")
    )
    return rest.merge(two).merge(one)


def test_the_first_branch_that_fits_takes_a_record_and_order_is_kept_behind_them() -> None:
    records: Records = [("a", "3"), ("a", "1"), ("a", "2"), ("a", "1")]
    assert through(merged, records) == [
        ("a", "3 rest"),
        ("a", "1 one"),
        ("a", "2 two"),
        ("a", "1 one"),
    ]


def test_branches_without_names_are_numbered_and_the_default_one_is_0() -> None:
    app = sl.App("a")
    split = app.stream("in", key=str, value=str).split(name="n-")
    split.branch(lambda k, v: True).branch(lambda k, v: True, name="x").branch(lambda k, v: True)
    assert list(split.default_branch()) == ["n-1", "n-x", "n-3", "n-0"]


def test_a_chain_takes_the_place_of_its_branch_or_removes_it() -> None:
    def chained(stream: sl.KStream[str, str]) -> sl.KStream[str, str]:
        branches = (
            stream.split()
            .branch(lambda k, v: v == "1", chain=lambda b: b.map_values(str.upper))
            .branch(lambda k, v: v == "x", name="x", chain=lambda b: b.map_values(str.upper))
            .default_branch(chain=lambda b: b.foreach(lambda k, v: None))
        )
        assert list(branches) == ["1", "x"]
        return branches["x"]

    assert through(chained, [("a", "x"), ("a", "1"), ("a", "y")]) == [("a", "X")]


def test_a_split_repartitions_for_keys_that_had_changed() -> None:
    app = sl.App("a")
    stream = app.stream("in", key=str, value=str).select_key(lambda k, v: v, key=str)
    (branch,) = stream.split().branch(lambda k, v: True).no_default_branch().values()
    branch.group_by_key().count(store="n")
    assert app.topology().repartition_topics == ("a-n-repartition",)


def test_predicates_may_see_the_context_and_be_expressions() -> None:
    seen: list[tuple[str, int]] = []

    def late(key: str, value: str, context: sl.RecordContext) -> bool:
        seen.append((value, context.offset))
        return context.offset > 1

    def asked(stream: sl.KStream[str, str]) -> sl.KStream[str, str]:
        split = stream.split().branch(sl.value() == "1").branch(sl.with_context(late), name="late")
        return split.no_default_branch()["late"]

    records: Records = [("a", "1"), ("a", "2"), ("a", "3"), ("a", "1"), ("a", "4")]
    assert through(asked, records) == [("a", "3"), ("a", "4")]
    assert seen == [("2", 1), ("3", 2), ("4", 4)] * 2


def test_a_predicate_that_fails_fails_its_record_and_the_others_go_on() -> None:
    app = sl.App("a", on_error="skip")
    split = app.stream("in", key=str, value=int).split()
    split.branch(lambda k, v: 6 // v > 2, name="few", chain=lambda b: b.to("few"))
    split.default_branch(name="many", chain=lambda b: b.to("many"))
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 1), ("b", 0), ("c", 3), ("d", 2)])
        assert [r.value for r in driver.read_output("few")] == [1, 2]
        assert [r.value for r in driver.read_output("many")] == [3]
        assert driver.skipped() == 1


def test_what_was_decided_before_a_failure_is_handed_on() -> None:
    values = [1, 5, 2, "x"]
    batch = Batch("in", 0, range(4), ["k"] * 4, values, [0] * 4)
    predicates = (lambda k, v: v + 0 == 1, lambda k, v: v == 2)
    with pytest.raises(OperatorFailed) as raised:
        NumberBranches(chosen(predicates, default=-1)).process(batch)
    assert raised.value.index == 3
    assert (raised.value.done.values, raised.value.done.olds) == ([1, 2], [0, 1])


def test_mistakes_are_refused_when_the_topology_is_built() -> None:
    split = sl.App("a").stream("in", key=str, value=str).split()
    split.branch(lambda k, v: True, name="x")
    wrong: list[tuple[Any, str]] = [
        (lambda: split.branch(lambda k, v: True, name="x"), "two branches named 'x'"),
        (lambda: split.branch(lambda v: True), "takes"),  # type: ignore[arg-type, misc]
        (lambda: split.branch(lambda k, v: True, chain=lambda b: 5), "returned 5, not a stream"),  # type: ignore[arg-type, return-value]
    ]
    for call, message in wrong:
        with pytest.raises(TopologyError, match=message):
            call()
    split.default_branch()
    with pytest.raises(TopologyError, match="has all its branches already"):
        split.branch(lambda k, v: True)
