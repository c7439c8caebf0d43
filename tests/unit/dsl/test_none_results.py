"""A fold whose function changes a list and returns None says so once; None still deletes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

import streamlet as sl
from streamlet.dsl.folds.none_results import noticed
from streamlet.serdes import serde
from streamlet.testing import TopologyTestDriver

HOUR_MS = 3_600_000

Build = Callable[[sl.KStream[str, Any]], Any]


def appended(key: str, value: Any, so_far: list[Any]) -> None:
    so_far.append(value)


def extended(so_far: list[Any], value: list[Any]) -> None:
    so_far.extend(value)


def kept(key: str, value: Any, so_far: list[Any] | None) -> list[Any]:
    return [*(so_far or []), value]


def lost(key: str, one: list[Any], other: list[Any]) -> None:
    one.extend(other)


def by_first(stream: sl.KStream[str, Any]) -> Any:
    return stream.to_table().group_by(lambda key, value: ("all", value), key=str, value=list)


FOLDS: dict[str, Build] = {
    "aggregate": lambda s: s.group_by_key().aggregate(list, appended, value=list),
    "reduce": lambda s: s.group_by_key().reduce(extended),
    "aggregate at commits": lambda s: s.group_by_key().aggregate(
        list, appended, value=list, emit="on_commit"
    ),
    "windows": lambda s: (
        s.group_by_key().windowed_by(sl.tumbling("1h")).aggregate(list, appended, value=list)
    ),
    "windows reduced": lambda s: s.group_by_key().windowed_by(sl.tumbling("1h")).reduce(extended),
    "sliding": lambda s: (
        s.group_by_key().windowed_by(sl.sliding("1h")).aggregate(list, appended, value=list)
    ),
    "sessions": lambda s: (
        s.group_by_key().windowed_by(sl.session("1h")).aggregate(list, kept, lost, value=list)
    ),
    "sessions reduced": lambda s: s.group_by_key().windowed_by(sl.session("1h")).reduce(extended),
    "cogroup": lambda s: s.group_by_key().cogroup(appended).aggregate(list, value=list),
    "cogroup in windows": lambda s: (
        s.group_by_key()
        .cogroup(appended)
        .windowed_by(sl.tumbling("1h"))
        .aggregate(list, value=list)
    ),
    "grouped table": lambda s: by_first(s).aggregate(list, appended, kept, value=list),
    "grouped table, subtracted": lambda s: by_first(s).aggregate(list, kept, appended, value=list),
    "grouped table, reduced": lambda s: by_first(s).reduce(extended, lambda a, b: a),
}


def warnings_of(build: Build, caplog: pytest.LogCaptureFixture) -> list[str]:
    app = sl.App("folding")
    build(app.stream("in", key=str, value=list))
    with TopologyTestDriver(app) as driver:
        for at in (0, 1, 2 * HOUR_MS, HOUR_MS, HOUR_MS + 1):  # the fourth joins two sessions
            for key in "ab":
                driver.pipe_input("in", key, [at], timestamp_ms=at)
    return [r.getMessage() for r in caplog.records if r.name == "streamlet.dsl.folds.none_results"]


@pytest.mark.parametrize("fold", FOLDS)
def test_a_changed_value_that_is_not_returned_is_said_once(
    fold: str, caplog: pytest.LogCaptureFixture
) -> None:
    (text,) = warnings_of(FOLDS[fold], caplog)
    name = "extended" if "reduced" in fold or fold == "reduce" else "appended"
    assert f"{'lost' if fold == 'sessions' else name} returned None for a list" in text
    assert text.startswith(("operator KSTREAM-", "operator KTABLE-", "operator COGROUPKSTREAM-"))
    assert "None deletes the row" in text


@attrs.frozen
class Total:
    n: int


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.group_by_key().aggregate(list, kept, value=list),
        lambda s: s.group_by_key().aggregate(list, lambda k, v, a: None, value=list),
        lambda s: s.group_by_key().aggregate(lambda: 7, lambda k, v, n: None, value=int),
        lambda s: s.group_by_key().aggregate(
            lambda: Total(7), lambda k, v, total: None, value=Total
        ),
        lambda s: s.group_by_key().aggregate({"n": sl.count()}),
    ],
)
def test_nothing_is_said_where_no_value_can_have_been_changed(
    build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    assert warnings_of(build, caplog) == []


def test_values_that_cannot_change_pay_nothing() -> None:
    def add(key: str, value: int, total: Any) -> Any:
        return total

    for kind in (int, str, Total, None):
        assert noticed(add, None if kind is None else serde(kind), 2) is add
    assert noticed(add, serde(dict), 2) is not add


def test_none_deletes_the_row_all_the_same() -> None:
    app = sl.App("folding")
    app.stream("in", key=str, value=int).group_by_key().aggregate(
        list, lambda key, n, so_far: [*so_far, n] if n else None, value=list, store="lists"
    )
    with TopologyTestDriver(app) as driver:
        for n in (1, 2, 0):
            driver.pipe_input("in", "k", n)
        assert driver.store("lists").get("k") is None
        driver.pipe_input("in", "k", 3)
        assert driver.store("lists").get("k") == [3]
