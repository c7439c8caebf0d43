"""A batch gives what its records give one by one, whatever the topology."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from streamlet.app import App
from streamlet.testing.driver import TopologyTestDriver


@dataclass
class Seen:
    values: list[int] = field(default_factory=list)


def see(key: str, value: int, seen: Seen) -> Seen:
    if value == 4:
        seen.values.clear()
        raise ValueError("four")
    seen.values.append(value)
    return seen


def everything() -> App:
    """Forks, merges, a table of its own changes' count, and an aggregate changed in place."""
    app = App("all", on_error="skip")
    stream = app.stream("in", key=str, value=int)
    seen = stream.group_by_key().aggregate(Seen, see, store="seen")
    seen.filter(lambda k, s: len(s.values) % 2 == 1).to_stream().to("odd")
    counts = stream.group_by_key().count(store="counts")
    joined = stream.left_join(counts, lambda v, n: [v, n], value=list)
    joined.merge(stream.map_values(lambda v: [v // (v - 3)], value=list)).to("joined")
    twice = stream.flat_map_values(lambda v: [v] * (v % 3), value=int)
    twice.group_by(lambda k, v: str(v), key=str, name="by").reduce(
        lambda a, b: a + b, store="sums"
    ).to_stream().to("sums-out")
    return app


def outcome(chunks: list[list[tuple[Any, Any]]]) -> Any:
    app = everything()
    with TopologyTestDriver(app) as driver:
        for chunk in chunks:
            driver.pipe_inputs("in", chunk)
        outputs = {
            topic: [(r.key, r.value) for r in driver.read_output(topic)]
            for topic in ("odd", "joined", "sums-out")
        }
        stores = {name: list(driver.store(name).range()) for name in ("seen", "counts", "sums")}
        return outputs, stores, driver.dropped()


records = some.lists(
    some.tuples(
        some.sampled_from(["a", "b", "c", None]), some.one_of(some.none(), some.integers(0, 5))
    ),
    max_size=12,
)


@given(records, some.integers(1, 5))
def test_a_batch_gives_what_its_records_give_one_by_one(
    given: list[tuple[Any, Any]], size: int
) -> None:
    one_by_one = outcome([[record] for record in given])
    assert outcome([given]) == one_by_one
    assert outcome([given[i : i + size] for i in range(0, len(given), size)]) == one_by_one


def branches() -> App:
    """Branches that are gathered: nested, with several records of one, and with some that fail."""
    app = App("branches", on_error="skip")
    stream = app.stream("in", key=str, value=int)
    split = stream.split(name="by-").branch(lambda key, value: (value or 0) % 3 == 0, name="three")
    parts = split.branch(lambda key, value: key == "a", name="a").default_branch(name="rest")
    three = parts["by-three"].flat_map_values(
        lambda value: [value] * (1 + (value or 0) % 2), value=int
    )
    odd = three.filter(lambda key, value: (value or 0) % 2 == 1).map_values(
        lambda v: v * 10, value=int
    )
    even = three.filter_not(lambda key, value: (value or 0) % 2 == 1)
    mine = parts["by-a"].map_values(lambda value: 12 // (value - 4), value=int)
    parts["by-rest"].to("rest")
    both = odd.merge(even).merge(mine).merge(stream.filter(lambda key, value: key == "b"))
    both.to("merged")
    both.group_by_key().reduce(lambda one, two: one * 2 + two, store="order")
    return app


def merged(chunks: list[list[tuple[Any, Any]]]) -> Any:
    with TopologyTestDriver(branches()) as driver:
        for chunk in chunks:
            driver.pipe_inputs("in", chunk)
        outputs = [
            [(r.key, r.value) for r in driver.read_output(topic)] for topic in ("merged", "rest")
        ]
        return outputs, list(driver.store("order").range()), driver.dropped()


@given(records)
def test_branches_that_merge_keep_the_order_of_their_records(given: list[tuple[Any, Any]]) -> None:
    assert merged([given]) == merged([[record] for record in given])
