"""What the lists in operators' docstrings say, and how records are piped to try them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs

from streamlet.app import App
from streamlet.dsl.stream import KStream
from streamlet.dsl.table import KTable
from streamlet.testing.driver import TopologyTestDriver
from streamlet.testing.driver_topics import OutputRecord

Pair = tuple[str | None, str | None]
Maker = Callable[[Any, Any], None]

#: Later records are older, so that a time taken from another record shows.
RECORDS: list[Pair] = [("k", "v"), (None, "v"), ("k", None), (None, None), ("k", "w")]


def facts(operator: Any) -> dict[str, str]:
    """The list in a docstring: label -> text."""
    text = inspect.getdoc(operator) or ""
    found: dict[str, str] = {}
    for labels, said in re.findall(r"^- ([A-Z][a-z, ]+): (.*(?:\n  .*)*)", text, re.M):
        found |= {label: " ".join(said.split()) for label in labels.lower().split(", ")}
    return found


class Calls(list[Pair]):
    """The keys and values that a function was given."""

    def returning(self, make: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def function(key: Any, value: Any) -> Any:
            self.append((key, value))
            return make(key, value)

        return function

    def awaited(self, make: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Awaitable[Any]]:
        async def function(key: Any, value: Any) -> Any:
            return self.returning(make)(key, value)

        return function


@attrs.frozen
class Tried:
    """What came of ``RECORDS``: the function's calls, the records written and the drops."""

    calls: Calls
    written: list[OutputRecord]
    dropped: int

    def source(self, record: OutputRecord) -> int:
        """The index of the record that an output comes from, by its header."""
        ((name, value),) = record.headers or ()
        assert name == "index"
        return int(value or b"")


def dropped_without_key_or_value(result: Tried) -> bool:
    complete = [index for index, pair in enumerate(RECORDS) if None not in pair]
    return list(map(result.source, result.written)) == complete and result.dropped == 3


def kept(result: Tried) -> bool:
    return [(r.key, r.value) for r in result.written] == RECORDS and result.dropped == 0


def shown(result: Tried) -> bool:
    return result.calls == RECORDS and result.dropped == 0


def dropped_without_key(result: Tried) -> bool:
    keyed = [pair for pair in RECORDS if pair[0] is not None]
    return [(r.key, r.value) for r in result.written] == keyed and result.dropped == 2


def dropped_without_value(result: Tried) -> bool:
    valued = [index for index, (_, value) in enumerate(RECORDS) if value is not None]
    return list(map(result.source, result.written)) == valued and result.dropped == 2


#: How a line about nulls begins -> whether a result is as it says.
NULLS: dict[str, Callable[[Tried], bool]] = {
    "the function gets them as None": shown,
    "the predicate gets them as None": shown,
    "the processor gets them as None": shown,
    "printed as None": shown,
    "kept": kept,
    "written as they are": kept,
    "records without a key or a value are left out and counted": dropped_without_key_or_value,
    "a record without a key is left out and counted": dropped_without_key,
    "records without a value are left out and counted": dropped_without_value,
    # Grouping alone writes nothing: what is behind it also leaves out records without a value.
    "records without a key are left out and counted": dropped_without_key_or_value,
}


def tried(make: Callable[[App, Calls], None], records: Sequence[Pair] = RECORDS) -> Tried:
    """Pipe records, each a batch of its own with its index as a header."""
    app, calls = App("a"), Calls()
    make(app, calls)
    parts = app.topology().subtopologies
    with TopologyTestDriver(app) as driver:
        if any("rows" in part.input_topics for part in parts):
            driver.pipe_input("rows", "k", "row", 1)
        for index, (key, value) in enumerate(records):
            headers = [("index", str(index).encode())]
            driver.pipe_input("in", key, value, 1000 - index, headers=headers)
        writes = any("out" in part.output_topics for part in parts)
        return Tried(calls, driver.read_output("out") if writes else [], driver.dropped())


def stream_of(app: App) -> KStream[str, str]:
    return app.stream("in", key=str, value=str)


def rows_of(app: App) -> KTable[str, str]:
    return app.table("rows", key=str, value=str)


def second(key: Any, value: Any) -> Any:
    return value
