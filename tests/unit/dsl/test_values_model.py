"""Functions that change what they have: results and stores are those of functions that do not.

Random topologies of such functions take random documents in one batch, record by record, and with
evictions and restarts between, and give the same each time. What is right comes of the same
functions with copies of all that they are given, return and yield.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from inspect import isgeneratorfunction
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import example, given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.dsl.windowing.windows import SessionWindows
from tests.shares import share_of
from tests.unit.dsl.value_tasks import Fed, played

Stream = sl.KStream[str, dict[str, Any]]
F = TypeVar("F", bound=Callable[..., Any])
#: Makes of a function the one that is used.
Around = Callable[[F], F]


def touched(value: dict[str, Any]) -> dict[str, Any]:
    value["n"] = value.get("n", 0) + 1
    value.setdefault("l", []).append(value["n"])
    return value


def as_is(function: F) -> F:
    return function


def on_copies(function: Any) -> Any:
    """The function, which gets copies, and whose results are copies."""
    if isgeneratorfunction(function):
        return lambda *given: (deepcopy(one) for one in function(*deepcopy(given)))
    return lambda *given: deepcopy(function(*deepcopy(given)))


def refilled() -> Any:
    """A function that fills one buffer again for each record."""
    buffer: dict[str, Any] = {}

    def fill(value: dict[str, Any]) -> dict[str, Any]:
        buffer.clear()
        buffer.update(value)
        return buffer

    return fill


def nested_buffer() -> Any:
    """A function with one list in all its results."""
    seen: list[int] = []

    def note(value: dict[str, Any]) -> dict[str, Any]:
        seen[:] = [value.get("n", 0), 1]
        return {"n": 2, "l": seen}

    return note


def items(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for number in (5, 6):
        value["n"] = number
        yield value


def merged(left: dict[str, Any], row: dict[str, Any] | None) -> dict[str, Any]:
    row = {} if row is None else row
    row["n"] = row.get("n", 0) + left.get("n", 0)
    left["n"] = row["n"]
    row.setdefault("l", []).append(len(left.get("l", ())))
    return row


def paired(left: dict[str, Any], row: dict[str, Any] | None) -> dict[str, Any]:
    """Both, of which it changes nothing."""
    return {"n": 3, "left": left, "row": row}


def collected(key: str, value: dict[str, Any], so_far: dict[str, Any]) -> dict[str, Any]:
    so_far.setdefault("all", []).append(value)
    value["n"] = 70
    del so_far["all"][:-2]
    return so_far


def stateful(record: Any, state: Any) -> Any:
    state.setdefault("l", []).append(record.value.get("n"))
    del state["l"][:-3]
    yield {"l": state["l"], "n": 1}
    state["l"].append("later")
    record.value["n"] = -1
    yield record.value


def together(key: str, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Both of two sessions, in the first one."""
    other.setdefault("all", []).append("merged")
    one.setdefault("all", []).extend(other["all"])
    return one


def stored(name: str, around: Around[Any]) -> Any:
    """A processor that changes what it has put, and what it gets."""

    def keep(record: Any, context: sl.ProcessorContext[Any, Any]) -> dict[str, Any]:
        store, value = context.store(name), around(touched)(record.value)
        before = store.get(record.key) or {"n": 0}
        store.put(record.key, deepcopy(value) if around is on_copies else value)
        value.setdefault("l", []).append(before.get("n"))
        before["n"] = -7
        return around(touched)(value)

    return keep


class Growing:
    """The streams of a topology to which operators are added."""

    def __init__(self, app: sl.App, around: Around[Any]) -> None:
        self.around = around
        self.app, self.number = app, 0
        self.table = app.table("t", key=str, value=dict, store="t")
        self.streams: list[Stream] = [app.stream("s", key=str, value=dict)]
        # One task has both topics.
        self.streams[0].left_join(self.table, lambda value, row: 1, value=int).to("tie")

    def store(self) -> str:
        self.number += 1
        return f"store-{self.number}"

    def add(self, name: str, at: int) -> None:
        stream = self.streams[at % len(self.streams)]
        found = getattr(self, name)(stream)
        if found is not None:
            self.streams.append(found)

    def change(self, stream: Stream) -> Stream:
        return stream.map_values(self.around(touched), value=dict)

    def refill(self, stream: Stream) -> Stream:
        return stream.map_values(self.around(refilled()), value=dict)

    def untyped(self, stream: Stream) -> Stream:
        """A tuple between two functions, whose type is not known."""
        pair: Any = stream.map_values(self.around(lambda value: (value, [value])))
        first: Stream = pair.map_values(self.around(lambda two: touched(two[0])), value=dict)
        pair.map_values(self.around(lambda two: touched(two[1][0])), value=dict).to(self.store())
        return first

    def nested(self, stream: Stream) -> Stream:
        return stream.map_values(self.around(nested_buffer()), value=dict)

    def flat(self, stream: Stream) -> Stream:
        return stream.flat_map_values(self.around(items), value=dict)

    def keep(self, stream: Stream) -> Stream:
        return stream.filter(self.around(lambda key, value: True)).peek(
            self.around(lambda key, value: None)
        )

    def enrich(self, stream: Stream) -> Stream:
        return stream.left_join(self.table, self.around(merged), value=dict)

    def look_up(self, stream: Stream) -> Stream:
        return stream.left_join(self.table, self.around(paired), value=dict)

    def enrich_mapped(self, stream: Stream) -> Stream:
        rows = self.table.map_values(self.around(touched), value=dict)
        return stream.join(rows, self.around(merged), value=dict)

    def enrich_versions(self, stream: Stream) -> Stream:
        return stream.left_join(self._versions(), self.around(merged), value=dict)

    def enrich_later(self, stream: Stream) -> Stream:
        joiner = self.around(merged)
        return stream.join(self._versions(), joiner, grace=2, value=dict, store=self.store())

    def _versions(self) -> sl.KTable[str, dict[str, Any]]:
        kept = sl.Materialized(self.store(), history=4)
        return self.streams[0].to_table(store=kept)

    def suppressed(self, stream: Stream) -> Stream:
        rows = stream.to_table(store=self.store())
        changed = rows.map_values(self.around(touched), value=dict)
        return changed.suppress(sl.until_time_limit(2), store=self.store()).to_stream()

    def transformed(self, stream: Stream) -> Stream:
        rows = stream.to_table(store=self.store())
        change = self.around(lambda value: touched(value) if value else value)
        return rows.transform_values(change, value=dict).to_stream()

    def put(self, stream: Stream) -> Stream:
        name = self.store()
        kept = sl.key_value_store(name, key=str, value=dict)
        return stream.process_values(stored(name, self.around), stores=[kept], value=dict)

    def once(self, stream: Stream) -> Stream:
        once = stream.deduplicate(2, store=self.store())
        return once.map_values(self.around(touched), value=dict)

    def cogrouped(self, stream: Stream) -> Stream:
        rows = stream.group_by_key().cogroup(self.around(collected))
        both = rows.cogroup(self.streams[0].group_by_key(), self.around(collected))
        return both.aggregate(dict, value=dict, store=self.store()).to_stream()

    def rows(self, stream: Stream) -> Stream:
        return stream.to_table(store=self.store()).to_stream()

    def tables(self, stream: Stream) -> Stream:
        rows = stream.to_table(store=self.store())
        joined = rows.outer_join(
            self.table, self.around(lambda a, b: merged(a or {}, b)), value=dict
        )
        return joined.to_stream()

    def look_at_tables(self, stream: Stream) -> Stream:
        rows = stream.to_table(store=self.store())
        return rows.outer_join(self.table, self.around(paired), value=dict).to_stream()

    def mapped_rows(self, stream: Stream) -> Stream:
        rows = stream.to_table(store=self.store())
        return rows.map_values(self.around(touched), value=dict, store=self.store()).to_stream()

    def collect(self, stream: Stream) -> Stream:
        rows = stream.group_by_key().aggregate(
            dict, self.around(collected), value=dict, store=self.store()
        )
        return rows.to_stream()

    def reduce(self, stream: Stream) -> Stream:
        grouped = stream.group_by_key()
        return grouped.reduce(
            self.around(lambda a, b: merged(b, a)), store=self.store()
        ).to_stream()

    def window(self, stream: Stream) -> None:
        self._window(stream, sl.hopping(8, 4))

    def slide(self, stream: Stream) -> None:
        self._window(stream, sl.sliding(3, grace=2))

    def session(self, stream: Stream) -> None:
        self._window(stream, sl.session(2, grace=2))

    def final(self, stream: Stream) -> None:
        self._window(stream, sl.tumbling(3), emit="final")

    def final_sessions(self, stream: Stream) -> None:
        self._window(stream, sl.session(1), emit="final")

    def until_closed(self, stream: Stream) -> None:
        self._window(stream, sl.hopping(4, 2), until_closed=True)

    def _window(
        self, stream: Stream, windows: Any, emit: Any = "updates", until_closed: bool = False
    ) -> None:
        grouped = stream.group_by_key().windowed_by(windows, emit=emit)
        how: dict[str, Any] = {"value": dict, "store": self.store()}
        if isinstance(windows, SessionWindows):
            how["merger"] = self.around(together)
        rows = grouped.aggregate(dict, self.around(collected), **how)
        if until_closed:
            rows = rows.suppress(sl.until_window_closes(), store=self.store())
        changes: Any = rows.to_stream()
        by_key = changes.map_values(self.around(lambda value: touched(value) if value else value))
        by_key.to(self.store(), value=dict)
        changes.to(self.store(), value=dict)

    def state(self, stream: Stream) -> Stream:
        function = stateful if self.around is as_is else _stateful_on_copies
        return stream.process_values(function, value=dict, name=self.store())

    def both(self, stream: Stream) -> Stream:
        within = sl.join_windows(3)
        other = self.streams[0]
        return stream.join(
            other, self.around(merged), within=within, value=dict, store=self.store()
        )

    def look_at_both(self, stream: Stream) -> Stream:
        within = sl.join_windows(3)
        other = self.streams[0]
        return stream.left_join(
            other, self.around(paired), within=within, value=dict, store=self.store()
        ).merge(stream.join(other, self.around(paired), within=within, value=dict))

    def outer(self, stream: Stream) -> Stream:
        joiner = self.around(lambda a, b: merged(a or {}, b))
        within = sl.join_windows(2)
        return stream.outer_join(
            self.streams[0], joiner, within=within, value=dict, store=self.store()
        )


def _stateful_on_copies(record: Any, state: Any) -> Any:
    for one in stateful(record.with_value(deepcopy(record.value)), state):
        yield deepcopy(one)


KINDS = [
    name for name in vars(Growing) if not name.startswith("_") and name not in ("add", "store")
]

steps = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 3)), min_size=1, max_size=5)
records = st.lists(
    st.tuples(st.sampled_from("sst"), st.sampled_from("aab"), st.integers(0, 9)), max_size=8
)


def builder(grown: list[tuple[str, int]], around: Around[Any]) -> Callable[[sl.App], None]:
    def build(app: sl.App) -> None:
        growing = Growing(app, around)
        for name, at in grown:
            growing.add(name, at)
        for number, stream in enumerate(growing.streams):
            stream.to(f"out-{number}", value=dict)

    return build


#: Changes of a row between records that meet it.
SOME = [("t", "a", 0), ("s", "a", 1), ("s", "b", 2), ("s", "a", 3), ("t", "a", 4), ("s", "a", 5)]


def with_each(test: Any) -> Any:
    """Try each operator with a branch beside it, before random ones."""
    for name in KINDS:
        test = example([(name, 0), ("change", 1), ("change", 0)], SOME)(test)
    return test


@with_each
@settings(max_examples=share_of(20), deadline=None)
@given(steps, records)
def test_results_and_stores_are_those_of_functions_that_change_nothing(
    grown: list[tuple[str, int]], fed: list[tuple[str, str, int]]
) -> None:
    given_records: list[Fed] = [(topic, key, {"n": n, "l": [n]}) for topic, key, n in fed]
    right = played(builder(grown, on_copies), given_records, 1)
    build = builder(grown, as_is)
    assert played(build, given_records, 1) == right
    assert played(build, given_records, max(1, len(fed))) == right
    with tempfile.TemporaryDirectory() as folder:
        assert played(build, given_records, 2, Path(folder)) == right
