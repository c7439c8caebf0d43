"""A record that is tried again is as it was read, whatever the failed try has made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import streamlet as sl
from streamlet.dsl.windowing.windows import SessionWindows
from streamlet.testing import TopologyTestDriver

Document = dict[str, Any]
OF: Any = {"key": str, "value": dict}


class Flaky:
    """Changes a value, and fails each third time."""

    def __init__(self) -> None:
        self.calls, self.seen = 0, list[int]()

    def __call__(self, value: Document) -> Document:
        self.seen.append(value["n"])
        value["n"] += 1
        value.setdefault("l", []).append("tried")
        self.calls += 1
        if self.calls % 3:
            raise ConnectionError("away")
        return value


def s(app: sl.App) -> Any:
    return app.stream("s", **OF)


def t(app: sl.App) -> Any:
    return app.table("t", **OF)


def processed(app: sl.App, f: Flaky) -> Any:
    class Flaking(sl.Processor[str, Document, str, Document]):
        def process(self, record: sl.Record[str, Document]) -> None:
            self.context.forward(record.with_value(f(record.value)))

    return s(app).process(Flaking, **OF)


def called(app: sl.App, f: Flaky, **more: Any) -> Any:
    async def call(value: Document) -> Document:
        return f(value)

    return s(app).map_values_async(call, value=dict, **more)


def partitioned(app: sl.App, f: Flaky) -> None:
    s(app).map_values(lambda v: {"n": v["n"] + 1, "l": ["tried"]}, value=dict).to(
        "out", partitioner=lambda k, v, n: f(v)["n"] * 0
    )


def unwindowed(table: Any) -> Any:
    return table.to_stream().select_key(lambda k, v: k.key, key=str).filter(lambda k, v: bool(v))


def windowed(windows: Any) -> Callable[[sl.App, Flaky], Any]:
    def build(app: sl.App, f: Flaky) -> Any:
        grouped = s(app).group_by_key().windowed_by(windows)
        merge = {"merger": lambda k, a, b: a} if isinstance(windows, SessionWindows) else {}
        step = lambda k, v, so_far: f(v)  # noqa: E731
        return unwindowed(grouped.aggregate(dict, step, value=dict, **merge))

    return build


def merged_sessions(app: sl.App, f: Flaky) -> Any:
    """The initial value is merged with a session there is: the record's second time."""
    twice = s(app).flat_map_values(lambda v: [dict(v), dict(v)], value=dict)
    sessions = twice.group_by_key().windowed_by(sl.session("1m"))
    found = sessions.aggregate(
        dict, lambda k, v, so_far: so_far or v, lambda k, a, b: f(b), value=dict
    )
    return unwindowed(found).filter(lambda k, v: v["n"] > 1)


ANEW = sl.Retry(5, backoff=0)
PLACES: dict[str, Callable[[sl.App, Flaky], Any]] = {
    "map_values": lambda app, f: s(app).map_values(f, value=dict),
    "map": lambda app, f: s(app).map(lambda k, v: (k, f(v)), **OF),
    "flat_map_values": lambda app, f: s(app).flat_map_values(lambda v: [f(v)], value=dict),
    "flat_map": lambda app, f: s(app).flat_map(lambda k, v: [(k, f(v))], **OF),
    "filter": lambda app, f: s(app).filter(lambda k, v: bool(f(v))),
    "peek": lambda app, f: s(app).peek(lambda k, v: f(v)),
    "select_key": lambda app, f: s(app).select_key(lambda k, v: k if f(v) else "", key=str),
    "process": processed,
    "process_values": lambda app, f: s(app).process_values(lambda r: f(r.value), value=dict),
    "state function": lambda app, f: s(app).process_values(
        lambda record, state: f(record.value), value=dict
    ),
    "map_batches": lambda app, f: s(app).map_batches(
        lambda batch: list(map(f, batch.values)), value=dict
    ),
    "map_values_async": called,
    "map_values_async, retry": lambda app, f: called(app, f, retry=ANEW),
    "join": lambda app, f: s(app).left_join(t(app), lambda v, row: f(v), value=dict),
    "join, row": lambda app, f: s(app).join(t(app), lambda v, row: f(row), value=dict),
    "join, global": lambda app, f: s(app).join(
        app.global_table("t", **OF), lambda v, row: f(v), on=lambda k, v: k, value=dict
    ),
    "table map_values": lambda app, f: app.table("s", **OF).map_values(f, value=dict).to_stream(),
    "table filter": lambda app, f: (
        app.table("s", **OF).filter(lambda k, v: bool(f(v)), store="f").to_stream()
    ),
    "aggregate": lambda app, f: (
        s(app).group_by_key().aggregate(dict, lambda k, v, so_far: f(v), value=dict).to_stream()
    ),
    "aggregate, the aggregate": lambda app, f: (
        s(app)
        .group_by_key()
        .aggregate(lambda: {"n": 1}, lambda k, v, so_far: f(so_far), value=dict)
        .to_stream()
    ),
    "reduce": lambda app, f: (
        s(app)
        .merge(s(app).map_values(lambda v: v, value=dict))
        .group_by_key()
        .reduce(lambda a, b: f(b))
        .to_stream()
        .filter(lambda k, v: v["n"] > 1)
    ),
    "partitioner": partitioned,
    "join, tables": lambda app, f: (
        app.table("s", **OF).join(t(app), lambda v, row: f(v), value=dict).to_stream()
    ),
    "cogroup": lambda app, f: (
        s(app).group_by_key().cogroup(lambda k, v, so_far: f(v)).aggregate(dict, value=dict)
    ).to_stream(),
    **{
        name: windowed(windows)
        for name, windows in {
            "tumbling": sl.tumbling("1m"),
            "hopping": sl.hopping("1m", advance="30s"),
            "sliding": sl.sliding("1m"),
            "session": sl.session("1m"),
            "unlimited": sl.unlimited(),
        }.items()
    },
    "session, merged": merged_sessions,
    "join, streams": lambda app, f: s(app).join(
        app.stream("t", **OF), lambda v, other: f(v), within=sl.join_windows("1m"), value=dict
    ),
    "left join, streams": lambda app, f: s(app).left_join(
        app.stream("t", **OF), lambda v, other: f(v), within=sl.join_windows("1m"), value=dict
    ),
    "outer join, streams": lambda app, f: (
        app.stream("t", **OF)
        .outer_join(
            s(app),
            lambda v, other: v if other is None else f(other),
            within=sl.join_windows("1m"),
            value=dict,
        )
        .filter(lambda k, v: v["n"] > 1)
    ),
    "join, foreign keys": lambda app, f: (
        app.table("s", **OF)
        .join(t(app), lambda v, row: f(v), foreign_key=lambda v: "a", value=dict)
        .to_stream()
    ),
    "left join, foreign keys, row": lambda app, f: (
        app.table("s", **OF)
        .left_join(t(app), lambda v, row: f(row), foreign_key=lambda v: "a", value=dict)
        .to_stream()
    ),
    "join, tables, a view": lambda app, f: (
        app.table("s", **OF)
        .join(t(app).map_values(f, value=dict), lambda v, row: row, value=dict)
        .to_stream()
    ),
    "join, foreign keys, a view": lambda app, f: (
        app.table("s", **OF)
        .join(
            t(app).map_values(f, value=dict),
            lambda v, row: row,
            foreign_key=lambda v: "a",
            value=dict,
        )
        .to_stream()
    ),
    "on commit": lambda app, f: unwindowed(
        s(app)
        .group_by_key()
        .windowed_by(sl.tumbling("1m"), emit="on_commit")
        .aggregate(dict, lambda k, v, so_far: f(v), value=dict)
    ),
}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("rule", ["retry", "handler"])
def test_each_try_begins_with_the_record_as_it_was_read(name: str, rule: str) -> None:
    flaky, met = Flaky(), list[Any]()

    def handler(context: Any, record: Any, error: Any) -> sl.Retry:
        met.append(record.value)
        return ANEW

    app = sl.App(
        "a", processing_handler=handler if rule == "handler" else ANEW, production_handler=ANEW
    )
    stream = PLACES[name](app, flaky)
    if stream is not None:
        stream.to("out", **OF)
    if "table" not in name:
        s(app).to("copy")
    with TopologyTestDriver(app) as driver:
        if "join" in name:
            driver.pipe_input("t", "a", {"n": 1}, 0)
        driver.pipe_input("s", "a", {"n": 1}, 1)
        assert [one.value for one in driver.read_output("out")] == [{"n": 2, "l": ["tried"]}]
        if "table" not in name:
            assert [one.value for one in driver.read_output("copy")] == [{"n": 1}]
    if "a view" in name:  # it is asked for the row's own change, and for the join
        assert flaky.seen == [1] * 6
        return
    assert flaky.seen == ([2, 2, 2] if name == "partitioner" else [1, 1, 1])
    if "foreign" in name:  # what is tried again is an answer of the right table
        assert len(met) == (2 if rule == "handler" else 0)
        return
    asked = name not in ("partitioner", "map_values_async, retry") and rule == "handler"
    assert met == ([{"n": 1}] * 2 if asked else [])


def test_a_record_of_which_a_join_has_sent_something_is_not_tried_again() -> None:
    """It has two matches, and the second fails."""
    calls = list[tuple[int, int]]()

    def second_fails(left: Document, right: Document | None) -> Document:
        calls.append((left["n"], (right or {"n": 0})["n"]))
        if calls[-1] == (2, 2):
            raise ConnectionError("away")
        return {"n": left["n"]}

    app = sl.App("a", on_error=sl.Retry(5, backoff=0, then="skip"))
    joined = s(app).left_join(
        app.stream("t", **OF), second_fails, within=sl.join_windows("1m"), value=dict
    )
    joined.to("out", **OF)
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("t", "a", {"n": 1}, 0)
        driver.pipe_input("t", "a", {"n": 2}, 1)
        driver.pipe_input("s", "a", {"n": 2}, 2)
        assert [one.value for one in driver.read_output("out")] == [{"n": 2}]
        assert driver.skipped() == 1
    assert calls == [(2, 1), (2, 2)]


def test_a_record_of_which_a_window_has_kept_something_is_not_tried_again() -> None:
    """The second of its two windows would take it once, the first one twice."""
    calls = list[int]()

    def second_fails(_key: str, value: Document, so_far: Document) -> Document:
        calls.append(value["n"])
        if len(calls) == 2:
            raise ConnectionError("away")
        return {"n": so_far.get("n", 0) + value["n"]}

    app = sl.App("a", on_error=sl.Retry(5, backoff=0, then="skip"))
    windows = s(app).group_by_key().windowed_by(sl.hopping("1m", advance="30s"))
    windows.aggregate(dict, second_fails, value=dict).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("s", "a", {"n": 1}, 40_000)
        driver.pipe_input("s", "a", {"n": 2}, 40_000)
        found = [(one.key.start, one.value) for one in driver.read_output("out")]
    assert found == [(0, {"n": 1}), (0, {"n": 3}), (30_000, {"n": 2})]
    assert calls == [1, 1, 2, 2]
