"""Changes of a table that a function behind it fails on, and that the policy leaves out.

Later changes of such a row work, its deletion too, and what is made of the rows stays right: a
table does not have a row that its function fails on, and a group has what was added to it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streamlet as sl
from streamlet.batch import Batch, OperatorFailed
from streamlet.errors import ProcessingError
from streamlet.state.task_state import TaskState
from streamlet.testing import TopologyTestDriver
from streamlet.types import StateNumber

BAD = {"item": "lamp"}
ANN = {"customer": "ann", "item": "lamp"}
BOB = {"customer": "bob", "item": "lamp"}
USERS = [("ann", "Bern"), ("bob", "Basel")]

Build = Callable[[sl.App], sl.KTable[Any, Any]]


def orders(app: sl.App) -> sl.KTable[str, Any]:
    return app.table("orders", key=str, value=dict)


def users(app: sl.App) -> sl.KTable[str, str]:
    return app.table("users", key=str, value=str)


def by_customer(app: sl.App) -> sl.KTable[str, Any]:
    named = orders(app).map_values(lambda order: order["customer"], value=str)
    return named.filter(lambda _key, name: name != "")


def city(order: Any, user: str | None) -> str:
    return f"{order['item']} to {user}"


def foreign(app: sl.App) -> sl.KTable[str, str]:
    how: Any = {"foreign_key": lambda order: order["customer"], "value": str}
    return orders(app).join(users(app), city, **how)


def left_foreign(app: sl.App) -> sl.KTable[str, str]:
    how: Any = {"foreign_key": lambda order: order["customer"], "value": str}
    return orders(app).left_join(users(app), city, **how)


def foreign_of_mapped(app: sl.App) -> sl.KTable[str, str]:
    how: Any = {"foreign_key": lambda name: name, "value": str}
    return by_customer(app).join(users(app), lambda name, at: f"lamp to {at}", **how)


def joined(app: sl.App) -> sl.KTable[str, str]:
    other = app.stream("others", key=str, value=str).to_table(store="others")
    return orders(app).join(other, lambda order, _: order["customer"], value=str)


def joined_with_mapped(app: sl.App) -> sl.KTable[str, str]:
    other = app.stream("others", key=str, value=str).to_table(store="others")
    return other.join(by_customer(app), lambda _, name: name, value=str)


def of_one_topic(app: sl.App) -> sl.KTable[str, str]:
    return orders(app).join(by_customer(app), lambda _, name: name, value=str)


def counted(build: Build) -> Build:
    def grouped(app: sl.App) -> sl.KTable[Any, Any]:
        return build(app).group_by(lambda _, name: (name, name), key=str, value=str).count()

    return grouped


def grouped_orders(app: sl.App) -> sl.KTable[Any, Any]:
    by_name = orders(app).group_by(lambda _, o: (o["customer"], 1), key=str, value=int)
    return by_name.reduce(lambda total, one: total + one, lambda total, one: total - one)


def mapped_and_filtered(app: sl.App) -> sl.KTable[Any, Any]:
    kept = orders(app).filter(lambda _, order: order["customer"] != "x")
    return counted(lambda _: kept.map_values(lambda order: order["customer"], value=str))(app)


def transformed(app: sl.App) -> sl.KTable[str, str]:
    def name_of(order: Any) -> Any:
        return None if order is None else order["customer"]

    return orders(app).transform_values(name_of, value=str)


#: What is made of the rows, by key, once they are ANN; nothing of a row that is gone.
FOREIGN: dict[str, Build] = {
    "foreign key": foreign,
    "foreign key, left": left_foreign,
    "foreign key of a mapped table": foreign_of_mapped,
}
COUNTED: dict[str, Build] = {
    "group_by": grouped_orders,
    "map_values": counted(by_customer),
    "filter, map_values": mapped_and_filtered,
    "transform_values": counted(transformed),
    "stored map_values": counted(
        lambda app: orders(app).map_values(lambda o: o["customer"], value=str, store="names")
    ),
    "join": counted(joined),
    "join with a mapped table": counted(joined_with_mapped),
    "join of one topic's tables": counted(of_one_topic),
}


def rows_after(build: Build, changes: list[Any], on_error: Any = "skip") -> dict[Any, Any]:
    """The rows of a table, as a reader of its changes has them, without counts of 0."""
    app = sl.App("shop", on_error=on_error)
    build(app).to_stream().to("out")
    rows: dict[Any, Any] = {}
    with TopologyTestDriver(app) as driver:
        for topic, records in (("users", USERS), ("others", [("o1", "x")])):
            if topic in driver_topics(app):
                driver.pipe_inputs(topic, records)
        for change in changes:
            driver.pipe_input("orders", "o1", change)
        for record in driver.read_output("out"):
            rows[record.key] = record.value
    return {key: value for key, value in rows.items() if value}


def driver_topics(app: sl.App) -> tuple[str, ...]:
    return app.topology().source_topics


LETTER = ("dead_letter", "letters")


@pytest.mark.parametrize("on_error", ["skip", LETTER, sl.Retry(2, backoff=1, then="skip")])
@pytest.mark.parametrize("before", [[], [BOB], [BOB, BAD]])
@pytest.mark.parametrize("name", [*FOREIGN, *COUNTED])
def test_later_changes_of_a_row_count_and_its_deletion_too(
    name: str, before: list[Any], on_error: Any
) -> None:
    build = FOREIGN.get(name) or COUNTED[name]
    ann = {"o1": "lamp to Bern"} if name in FOREIGN else {"ann": 1}
    bob = {"o1": "lamp to Basel"} if name in FOREIGN else {"bob": 1}
    assert rows_after(build, [*before, BAD, ANN], on_error) == ann
    assert rows_after(build, [*before, BAD, None], on_error) == {}
    assert rows_after(build, [*before, BAD, ANN, BAD, BOB], on_error) == bob


@pytest.mark.parametrize("name", [*FOREIGN, *COUNTED])
def test_under_fail_a_row_that_a_function_fails_on_stops_the_application(name: str) -> None:
    build = FOREIGN.get(name) or COUNTED[name]
    with pytest.raises(ProcessingError, match="customer"):
        rows_after(build, [BOB, BAD, ANN], "fail")


def test_only_the_record_that_fails_is_skipped_and_written_as_a_dead_letter() -> None:
    app = sl.App("shop", on_error=LETTER)
    grouped_orders(app).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("orders", [("o1", BOB), ("o1", BAD), ("o1", ANN), ("o1", BAD)])
        driver.pipe_input("orders", "o1", None)
        assert driver.skipped() == 2
        assert len(driver.read_output("letters", key=bytes, value=bytes)) == 2


def test_an_old_value_is_tried_again_under_retry() -> None:
    """A function that fails for a moment takes its value back all the same."""
    tries = {"down": 0}

    def grouped(key: str, order: Any) -> tuple[str, int]:
        if tries["down"]:
            tries["down"] -= 1
            raise ConnectionError("no answer")
        return order["customer"], 1

    app = sl.App("shop", on_error=sl.Retry(5, backoff=1, then="skip"))
    orders(app).group_by(grouped, key=str, value=int).count(store="n").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("orders", "o1", BOB)
        tries["down"] = 4
        driver.pipe_input("orders", "o1", ANN)
        assert dict(driver.store("n").range()) == {"ann": 1, "bob": 0}


# Folds: the total has what was added, whatever is refused.


def refuses_many(total: int, value: int) -> int:
    if total + value > 20:
        raise ValueError(f"too much: {total} and {value}")
    return total + value


def refuses_negative(total: int, value: int) -> int:
    if value < 0:
        raise ValueError(f"negative: {value}")
    return total + value


def total_of(
    add: Callable[[int, int], int],
    subtract: Callable[[int, int], int],
    changes: list[tuple[str, int | None]],
    one_batch: bool,
) -> dict[str, int]:
    app = sl.App("till", on_error="skip")
    grouped = app.table("rows", key=str, value=int).group_by(
        lambda key, v: (key[0], v), key=str, value=int
    )
    sums = grouped.aggregate(
        int, lambda _, v, a: add(a, v), lambda _, v, a: subtract(a, v), value=int, store="sums"
    )
    sums.to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        if one_batch:
            driver.pipe_inputs("rows", changes)
        else:
            for key, value in changes:
                driver.pipe_input("rows", key, value)
        return dict(driver.store("sums").range())


@pytest.mark.parametrize("one_batch", [True, False])
@pytest.mark.parametrize(
    ("changes", "total"),
    [
        ([10, -5, 20], 20),
        ([10, -5, -5, 20], 20),
        ([-5, 20], 20),
        ([10, -5, None], 0),
        ([10, -5, -6, None], 0),
        ([-5, None], None),
        ([10, -5], 10),
    ],
)
def test_what_was_never_added_is_not_subtracted(
    changes: list[int | None], total: int | None, one_batch: bool
) -> None:
    rows = [("r1", change) for change in changes]
    found = total_of(refuses_negative, lambda a, v: a - v, rows, one_batch)
    assert found == ({} if total is None else {"r": total})


@pytest.mark.parametrize("one_batch", [True, False])
def test_a_value_that_a_group_has_no_room_for_is_not_in_it(one_batch: bool) -> None:
    """Whether a value is refused may depend on what is in the group."""
    changes: list[tuple[str, int | None]]
    changes = [("r1", 15), ("r2", 15), ("r3", 5), ("r2", 1), ("r3", None), ("r1", None)]
    found = total_of(refuses_many, lambda a, v: a - v, changes[:3], one_batch)
    assert found == {"r": 20}
    for count, total in ((4, 20), (5, 15), (6, 0)):
        found = total_of(refuses_many, lambda a, v: a - v, changes[:count], one_batch)
        assert found == {"r": total}, count


def test_a_value_that_cannot_be_taken_out_keeps_no_later_one_out() -> None:
    def subtract(total: int, value: int) -> int:
        if value == 7:
            raise ValueError("not 7")
        return total - value

    rows: list[tuple[str, int | None]]
    rows = [("r1", 7), ("r1", 1), ("r1", 2), ("r1", None), ("r2", 4)]
    assert total_of(lambda a, v: a + v, subtract, rows[:3], False) == {"r": 9}  # 7 stays in
    assert total_of(lambda a, v: a + v, subtract, rows, False) == {"r": 11}


@pytest.mark.parametrize("seed", range(12))
def test_a_total_is_that_of_the_values_that_are_in(seed: int) -> None:
    """The model: a row whose value is refused keeps the one before, or loses it."""
    dice = random.Random(seed)
    values = [None, 1, 2, 3, -1, -2]
    changes = [(f"{dice.choice('ab')}{dice.randrange(4)}", dice.choice(values)) for _ in range(60)]
    present: dict[str, int] = {}
    for key, value in changes:
        if value is None:
            present.pop(key, None)
        elif value > 0:
            present[key] = value
    changes += [(key, 5) for key in sorted({key for key, _ in changes})]
    totals: dict[str, int] = {}
    for key in {key for key, _ in changes}:
        totals[key[0]] = totals.get(key[0], 0) + 5
    assert total_of(refuses_negative, lambda a, v: a - v, changes, bool(seed % 2)) == totals


def test_what_a_group_lacks_is_known_after_a_restart(tmp_path: Path) -> None:
    app = sl.App("till")
    rows = app.table("rows", key=str, value=int)
    rows.group_by(lambda key, v: (key, v), key=str, value=int).count(store="n")
    (spec,) = (s for part in app.topology().subtopologies for s in part.stores if s.name == "n")
    state = TaskState(tmp_path, [spec], 1 << 20)
    store: Any = state.stores["n"]
    store.put("a", 1)
    store.commits.beside.add(b"a", b"new", b"old")
    store.commits.beside.add(b"a", b"new", None)
    assert [key for key, _ in store.range()] == ["a"]
    state.write(state.drain(), StateNumber(1, 1), {})
    assert not state.has_dirty()
    store.commits.beside.remove(b"a", b"new")
    assert state.has_dirty()
    state.discard()
    assert store.commits.beside.by_group == {b"a": {b"new": [b"old", None]}}
    state.close()
    state = TaskState(tmp_path, [spec], 1 << 20)
    store = state.stores["n"]
    assert store.commits.beside.by_group == {b"a": {b"new": [b"old", None]}}
    assert dict(store.range()) == {"a": 1}
    for _ in range(2):
        store.commits.beside.remove(b"a", b"new")
    state.write(state.drain(), StateNumber(1, 2), {})
    state.close()
    state = TaskState(tmp_path, [spec], 1 << 20)
    store = state.stores["n"]
    assert (store.commits.beside.by_group, dict(store.range())) == ({}, {"a": 1})
    state.close()


# Tables that change by one record.

FORMS: dict[str, Callable[[sl.KTable[str, int], sl.App], sl.KTable[str, int]]] = {
    "mapped": lambda t, _: t.join(
        t.map_values(lambda v: v + 1, value=int), lambda a, b: a * b, value=int
    ),
    "stored": lambda t, _: t.join(
        t.map_values(lambda v: v + 1, value=int, store="m"), lambda a, b: a * b, value=int
    ),
    "both filtered": lambda t, _: t.filter(lambda _, v: v > 1).join(
        t.filter(lambda _, v: v < 9), lambda a, b: a * b, value=int
    ),
    "itself": lambda t, _: t.join(t, lambda a, b: a * b, value=int),
    "left": lambda t, _: t.left_join(
        t.filter(lambda _, v: v < 4), lambda a, b: a * 10 + (b or 0), value=int
    ),
    "outer": lambda t, _: t.filter(lambda _, v: v > 4).outer_join(
        t.filter(lambda _, v: v < 6), lambda a, b: (a or 0) * 10 + (b or 0), value=int
    ),
    "kept": lambda t, _: t.join(
        t.map_values(lambda v: v + 1, value=int), lambda a, b: a * b, value=int, store="kept"
    ),
    "of a stream": lambda t, app: t.join(
        app.stream("rows", key=str, value=int).to_table(store="u"), lambda a, b: a * b, value=int
    ),
}
#: The row of the join for a row of the table.
WANTED: dict[str, Callable[[int], int | None]] = {
    "mapped": lambda v: v * (v + 1),
    "stored": lambda v: v * (v + 1),
    "both filtered": lambda v: v * v if 1 < v < 9 else None,
    "itself": lambda v: v * v,
    "left": lambda v: v * 10 + (v if v < 4 else 0),
    "outer": lambda v: (v if v > 4 else 0) * 10 + (v if v < 6 else 0),
    "kept": lambda v: v * (v + 1),
    "of a stream": lambda v: v * v,
}


@pytest.mark.parametrize("one_batch", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_a_row_that_goes_on_both_sides_goes_from_the_join_and_its_group(
    form: str, one_batch: bool
) -> None:
    dice = random.Random(form)
    app = sl.App("shop")
    table = FORMS[form](app.table("rows", key=str, value=int), app)
    table.to_stream().to("joined")
    grouped = table.group_by(lambda key, v: ("all", v), key=str, value=int)
    grouped.reduce(lambda a, v: a + v, lambda a, v: a - v, store="sum").to_stream().to("sums")
    changes = [(f"k{dice.randrange(3)}", dice.choice([None, *range(1, 12)])) for _ in range(80)]
    changes += [("k0", None), ("k1", 5)]
    rows: dict[str, int | None] = {}
    with TopologyTestDriver(app) as driver:
        for batch in [changes] if one_batch else [[change] for change in changes]:
            driver.pipe_inputs("rows", batch)
        for record in driver.read_output("joined"):
            rows[record.key] = record.value
        total = driver.store("sum").get("all")
    last = dict(changes)
    wanted = {key: None if v is None else WANTED[form](v) for key, v in last.items()}
    assert {key: rows.get(key) for key in wanted} == wanted
    assert total == sum(v for v in wanted.values() if v is not None)


def test_a_failure_moved_to_another_batch_keeps_what_follows_from_it() -> None:
    batch = Batch("t", 0, [0], ["k"], [1], [0])
    failed = OperatorFailed(0, batch, again=True, instead=batch, of_row=True, left_out=print)
    moved = failed.at(3, batch)
    assert moved.index == 3
    assert (moved.again, moved.instead, moved.of_row, moved.left_out) == (True, batch, True, print)
