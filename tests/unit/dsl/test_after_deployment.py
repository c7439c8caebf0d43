"""What a new version of a program makes of the state of the one before it.

Its value type has a field more, a field less, or a wider one, or a function in front of an operator
makes another value. State goes on, and rows follow what they depend on.
"""

from __future__ import annotations

from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

import streamlet as sl
from streamlet.dsl.foreign_keys import wire, wire_columns
from streamlet.errors import StateMismatchError
from streamlet.serdes.key_marks import key_mark
from streamlet.serdes.resolve import serde
from streamlet.testing import TopologyTestDriver
from tests.registry_server import RegistryServer
from tests.unit.dsl.deployments import RAW, SOME_TYPES, TYPES, Program, keep_on_disk, orders


def moved(app: sl.App) -> sl.KTable[str, str]:
    return app.table("users", key=str, value=str, store="users")


def shown(order: Any, user: str | None) -> str:
    return f"{order.item} to {user}"


def foreign(app: sl.App, order: type, _version: int, left: bool = False) -> Any:
    table = orders(app, order)
    join: Any = table.left_join if left else table.join
    of_customer = lambda o: o.customer  # noqa: E731
    return join(moved(app), shown, foreign_key=of_customer, value=str, store="placed").to_stream()


def left_foreign(app: sl.App, order: type, version: int) -> Any:
    return foreign(app, order, version, left=True)


def foreign_of_mapped(app: sl.App, order: type, version: int) -> Any:
    """The function in front of the join makes another value in the second version."""
    extra: dict[str, Any] = {} if version == 1 else {"v": 2}
    made = orders(app, order).map_values(
        lambda o: {"customer": o.customer, "item": o.item, **extra}, value=dict
    )
    show = lambda o, user: f"{o['item']} to {user}"  # noqa: E731
    customer = lambda o: o["customer"]  # noqa: E731
    return made.join(moved(app), show, foreign_key=customer, value=str, store="p").to_stream()


def foreign_of(kind: str) -> Program:
    """A join by foreign keys whose left table is made of the orders by an operator."""

    def program(app: sl.App, order: type, _version: int) -> Any:
        stream = app.stream("orders", key=str, value=order)
        left: Any
        if kind == "aggregate":
            left = stream.group_by_key().reduce(lambda _, o: o, store="last")
        elif kind == "history":
            left = stream.to_table(store=sl.Materialized("last", history="1h"))
        else:
            left = stream.to_table(store="all").filter(lambda _, o: o.item != "", store="last")
        of_customer = lambda o: o.customer  # noqa: E731
        placed = left.join(moved(app), shown, foreign_key=of_customer, value=str, store="placed")
        return placed.to_stream()

    return program


def joined_tables(how: str) -> Program:
    def program(app: sl.App, order: type, _version: int) -> Any:
        return getattr(orders(app, order), how)(moved(app), shown, value=str).to_stream()

    return program


def stream_with_table(how: str) -> Program:
    def program(app: sl.App, order: type, _version: int) -> Any:
        join = getattr(app.stream("users", key=str, value=str), how)
        return join(orders(app, order), lambda user, o: shown(o, user), value=str)

    return program


def stream_with_versions(app: sl.App, order: type, _version: int) -> Any:
    how = sl.Materialized("orders", history="1h")
    table = app.table("orders", key=str, value=order, store=how)
    stream = app.stream("users", key=str, value=str)
    return stream.join(table, lambda user, o: shown(o, user), value=str)


def streams(how: str) -> Program:
    def program(app: sl.App, order: type, _version: int) -> Any:
        join = getattr(app.stream("orders", key=str, value=order), how)
        right = app.stream("users", key=str, value=str)
        return join(right, shown, within=sl.join_windows("1h"), value=str, store="j")

    return program


class Looks(sl.Processor[str, str, str, str]):
    """Shows the order in a store that another processor has filled."""

    def process(self, record: sl.Record[str, str]) -> None:
        found = self.context.store("kept").get(record.key)
        self.context.forward(record.with_value(shown(found, record.value)))


def processors(app: sl.App, order: type, _version: int) -> Any:
    def keep(record: Any, context: sl.ProcessorContext[Any, Any]) -> None:
        context.store("kept").put(record.key, record.value)

    kept = sl.key_value_store("kept", key=str, value=order)
    app.stream("orders", key=str, value=order).process(keep, stores=[kept], key=str, value=str)
    stream = app.stream("users", key=str, value=str)
    return stream.process(Looks, stores=[kept], key=str, value=str)


def state_functions(app: sl.App, order: type, _version: int) -> Any:
    def last(record: Any, state: Any) -> Any:
        if isinstance(record.value, order):
            state["last"] = record.value
            return None
        return shown(state["last"], record.value)

    users = app.stream("users", key=str, value=str).map_values(lambda u: u)
    both: Any = app.stream("orders", key=str, value=order).merge(users)  # type: ignore[arg-type]
    return both.process_values(last, state=dict[str, order], value=str, name="last")


def kept_values(app: sl.App, order: type, _version: int) -> Any:
    last = app.stream("orders", key=str, value=order).to_table(store="last")
    stream = app.stream("users", key=str, value=str)
    return stream.join(last, lambda user, o: shown(o, user), value=str)


def reduced(app: sl.App, order: type, _version: int) -> Any:
    first = app.stream("orders", key=str, value=order).group_by_key()
    table = first.reduce(lambda one, other: one, store="first")
    stream = app.stream("users", key=str, value=str)
    return stream.join(table, lambda user, o: shown(o, user), value=str)


def stored_filter(app: sl.App, order: type, _version: int) -> Any:
    table = orders(app, order).filter(lambda _, o: o.item != "", store="some")
    stream = app.stream("users", key=str, value=str)
    return stream.join(table, lambda user, o: shown(o, user), value=str)


JOINS = ("join", "left_join")
#: Those that compare rows of before with the types of now.
OF_ROWS = ("join by foreign keys", "left join by foreign keys")
#: Programs over a row of "orders", which a record of "users" meets; with the key that this has.
OPERATORS: dict[str, tuple[Program, str]] = {
    "join by foreign keys": (foreign, "ann"),
    "left join by foreign keys": (left_foreign, "ann"),
    "join by foreign keys behind a function": (foreign_of_mapped, "ann"),
    "join by foreign keys of an aggregate": (foreign_of("aggregate"), "ann"),
    "join by foreign keys of a versioned table": (foreign_of("history"), "ann"),
    "join by foreign keys of a stored filter": (foreign_of("filter"), "ann"),
    **{f"{how} of tables": (joined_tables(how), "o1") for how in (*JOINS, "outer_join")},
    **{f"{how} with a table": (stream_with_table(how), "o1") for how in JOINS},
    "join of a stream with a versioned table": (stream_with_versions, "o1"),
    **{f"{how} of streams": (streams(how), "o1") for how in (*JOINS, "outer_join")},
    "stores of processors": (processors, "o1"),
    "state functions": (state_functions, "o1"),
    "to_table": (kept_values, "o1"),
    "reduce": (reduced, "o1"),
    "filter with a store": (stored_filter, "o1"),
}


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tasks of the driver keep their stores in folders, as instances do."""
    keep_on_disk(monkeypatch, tmp_path)


def run(
    program: Program, order: type, version: int, user: tuple[str, str], first: bool
) -> list[tuple[str, str]]:
    app = sl.App("shop")
    program(app, order, version).to("out")
    with TopologyTestDriver(app) as driver:
        if first:
            driver.pipe_bytes("orders", b"o1", RAW)
        driver.pipe_input("users", *user)
        return [(record.key, record.value) for record in driver.read_output("out")]


@pytest.mark.parametrize(
    ("operator", "types"),
    [(one, types) for one in OPERATORS for types in (TYPES if one in OF_ROWS else SOME_TYPES)],
)
def test_rows_of_the_version_before_are_there_and_follow(
    operator: str, types: str, on_disk: None
) -> None:
    program, key = OPERATORS[operator]
    before, after = TYPES[types]
    assert run(program, before, 1, (key, "Bern"), True)[-1] == ("o1", "lamp to Bern")
    assert run(program, before, 1, (key, "Basel"), False) == [("o1", "lamp to Basel")]
    assert run(program, after, 2, (key, "Chur"), False) == [("o1", "lamp to Chur")]
    assert run(program, before, 1, (key, "Davos"), False) == [("o1", "lamp to Davos")]


def test_a_key_with_a_field_more_is_refused_where_rows_lie_by_keys_of_before(
    on_disk: None,
) -> None:
    """Its bytes are others: counts began again, and joins met no row, without a word."""

    def count(key: type) -> int:
        app = sl.App("shop")
        app.stream("in", key=key, value=str).group_by_key().count(store="n")
        with TopologyTestDriver(app) as driver:
            driver.pipe_bytes("in", b'{"id":1}', b"x")
            return int(driver.store("n").get(key(1)))

    keys = [
        make_dataclass("Key", [("id", int), *more], frozen=True)
        for more in ([], [("region", str, "eu")])
    ]
    assert [count(keys[0]), count(keys[0])] == [1, 2]
    with pytest.raises(StateMismatchError, match=r"store n held json\(Key.* another name"):
        count(keys[1])
    # Written without what is as its default, the key is as before.
    omitting: Any = {"frozen": True, "omit_defaults": True}
    shorter = msgspec.defstruct("Short", [("id", int)], **omitting)
    longer = msgspec.defstruct("Short", [("id", int), ("region", str, "eu")], **omitting)
    assert key_mark(serde(shorter)) == key_mark(serde(longer))


def test_answers_to_a_value_that_was_replaced_are_dropped() -> None:
    content = wire.digests(serde(dict))
    one, other = content([{"a": 1}, {"a": 2}])
    contents: list[bytes | None] = [one, other, one]
    first, second, third = wire_columns.digests_of(contents, [b"ann", b"ann", b"bob"])
    # The second one is of an earlier version of streamlet.
    assert wire.are_digests_of([first, one], [one, one], [first, first]) == [True, True]
    assert wire.are_digests_of([first], [other], [second]) == [False]
    assert wire.names_the_same(first, second)
    assert not wire.names_the_same(first, third)
    assert not wire.names_the_same(None, first)
    assert wire.has_value_of(first, one)
    assert not wire.has_value_of(first, other)


@pytest.mark.parametrize("form", ["json", "avro", "registry.json", "pydantic"])
def test_a_set_is_the_same_row_in_whatever_order(form: str) -> None:
    """Sets of texts have another order in each process: rows did not follow after a restart."""
    of: Any = make_dataclass("Order", [("tags", set[int])])
    if form == "pydantic":
        of = pydantic.create_model("Order", tags=(set[int], ...))
    with RegistryServer() as server:
        registry = sl.registry.Registry(server.url)
        made: Any = {
            "avro": lambda: sl.registry.avro(of, registry=registry),
            "registry.json": lambda: sl.registry.json(of, registry=registry),
        }
        rows = made.get(form, lambda: serde(of))()
        one, other = (of(tags=set(numbers)) for numbers in ([0, 8], [8, 0]))
        assert list(one.tags) != list(other.tags)
        same, too = wire.digests(rows.as_value or rows)([one, other])
        assert same == too is not None


class Note:
    """An order in a class that no library knows how to write."""

    def __init__(self, customer: str, item: str) -> None:
        self.customer, self.item = customer, item


@pytest.mark.parametrize("name", ["str", "int", "dict", "list", "json", "json(Order)", "order"])
def test_rows_follow_whatever_a_serde_is_called(name: str) -> None:
    """A name tells nothing of a serde: its users choose it."""

    def encode(note: Note) -> bytes:
        return f"{note.customer} {note.item}".encode()

    app = sl.App("shop")
    serde_of_notes = sl.Serde(name, encode, lambda raw: Note(*raw.decode().split()))
    foreign(app, serde_of_notes, 1).to("out")  # type: ignore[arg-type]
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("users", "ann", "Bern")
        driver.pipe_input("orders", "o1", Note("ann", "lamp"))
        driver.pipe_input("users", "ann", "Basel")
        driver.pipe_input("orders", "o1", Note("ann", "desk"))
        found = [record.value for record in driver.read_output("out")]
    assert found == ["lamp to Bern", "lamp to Basel", "desk to Basel"]
