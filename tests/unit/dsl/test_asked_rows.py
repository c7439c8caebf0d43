"""What is known of left rows that asked for right ones, which need no look then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import streamlet as sl
from streamlet.dsl.foreign_keys import asked_rows, wire
from streamlet.dsl.foreign_keys.asked_rows import AskedRows
from streamlet.testing import TopologyTestDriver

ANN, BOB = {"user": "ann"}, {"user": "bob"}


def test_a_digest_is_known_of_the_object_that_asked() -> None:
    rows = AskedRows()
    rows.note(["o1", "o2", "o3"], [ANN, BOB, None], [b"1", b"2", None])
    assert rows.digests(["o1", "o2", "o3", "o4"], [ANN, dict(BOB), None, None]) == [
        *(b"1", None, None, None)
    ]
    rows.note(["o1"], [BOB], [b"3"])
    assert rows.digests(["o1", "o1"], [ANN, BOB]) == [None, b"3"]


def test_all_rows_are_forgotten_once_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_rows, "MOST_ROWS", 2)
    rows = AskedRows()
    rows.note(["o1", "o2", "o3"], [ANN, ANN, ANN], [b"1", b"2", b"3"])
    assert rows.digests(["o3"], [ANN]) == [b"3"]
    rows.note(["o4"], [ANN], [b"4"])
    assert rows.digests(["o1", "o2", "o3", "o4"], [ANN] * 4) == [None, None, None, b"4"]


def test_rows_that_were_digested_to_ask_are_not_for_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digested: list[Any] = []
    digests = wire.digests

    def noted(value: Any) -> wire.Digests:
        of: wire.Digests = digests(value)

        def digest(column: Iterable[Any]) -> Iterator[bytes | None]:
            found = list(column)
            digested.extend(found)
            return of(found)

        return digest

    monkeypatch.setattr(wire, "digests", noted)
    app = sl.App("shop")
    orders = app.table("orders", key=str, value=dict)
    users = app.table("users", key=str, value=str)
    found = orders.join(
        users,
        lambda order, user: f"{order['n']} {user}",
        foreign_key=lambda order: order["user"],
        value=str,
    )
    found.to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("users", "ann", "Ann")
        for n in (1, 2):
            driver.pipe_input("orders", "o1", {"user": "ann", "n": n})
        driver.pipe_input("users", "ann", "Anna")
        assert [one.value for one in driver.read_output("out")] == ["1 Ann", "2 Ann", "2 Anna"]
    assert digested == [{"user": "ann", "n": 1}, {"user": "ann", "n": 2}]
