"""Which of several answers, and what becomes of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from streamlet.state.query_errors import InvalidQueryError, StateStoreMigratedError
from streamlet.web.asking import Way, first_answer

#: A wait that a test never sees the end of.
_LONG_S = 3_600.0


class Asked:
    """Ways that note who is asked, and who is told to stop."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.stopped: list[str] = []

    def answers(self, name: str) -> Way[str]:
        async def way() -> str:
            self.asked.append(name)
            return name

        return way

    def refuses(self, name: str, error: Exception | None = None) -> Way[str]:
        async def way() -> str:
            self.asked.append(name)
            raise error or StateStoreMigratedError(name)

        return way

    def takes(self, name: str, seconds: float) -> Way[str]:
        async def way() -> str:
            self.asked.append(name)
            await asyncio.sleep(seconds)
            return name

        return way

    def hangs(self, name: str) -> Way[str]:
        async def way() -> str:
            self.asked.append(name)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.stopped.append(name)
                raise
            raise AssertionError

        return way


def _run(found: Coroutine[Any, Any, str]) -> str:
    async def and_what_it_leaves() -> str:
        try:
            return await found
        finally:
            await asyncio.sleep(0)

    return asyncio.run(and_what_it_leaves())


def test_the_next_is_asked_when_one_refused() -> None:
    asked = Asked()
    ways = [asked.refuses("a"), asked.answers("b"), asked.answers("c")]
    assert _run(first_answer(ways, asked.answers("last"), _LONG_S)) == "b"
    assert asked.asked == ["a", "b"]


def test_the_next_is_asked_beside_one_that_takes_long() -> None:
    asked = Asked()
    ways = [asked.hangs("a"), asked.hangs("b"), asked.refuses("c"), asked.answers("d")]
    assert _run(first_answer(ways, asked.answers("last"), 0.001)) == "d"
    assert (asked.asked, sorted(asked.stopped)) == ([*"abcd"], [*"ab"])


def test_the_last_is_asked_once_all_have_refused() -> None:
    """And not beside one that takes long: it may hold a thread."""
    asked = Asked()
    last = asked.answers("last")
    assert _run(first_answer([], last, _LONG_S)) == "last"
    assert _run(first_answer([asked.takes("a", 0.05)], last, 0.001)) == "a"
    assert asked.asked == ["last", "a"]
    assert _run(first_answer([asked.refuses("b"), asked.refuses("c")], last, _LONG_S)) == "last"
    assert asked.asked == ["last", "a", "b", "c", "last"]


def test_if_all_refuse_the_first_of_them_is_heard() -> None:
    asked = Asked()
    with pytest.raises(StateStoreMigratedError, match=r"^a$"):
        _run(first_answer([asked.refuses("a"), asked.refuses("b")], asked.refuses("c"), _LONG_S))
    with pytest.raises(StateStoreMigratedError, match=r"^only$"):
        _run(first_answer([], asked.refuses("only"), _LONG_S))


@pytest.mark.parametrize("error", [InvalidQueryError("no such store"), ValueError("a bug")])
def test_what_would_not_pass_elsewhere_ends_the_search(error: Exception) -> None:
    asked = Asked()
    ways = [asked.hangs("a"), asked.refuses("b", error), asked.answers("c")]
    with pytest.raises(type(error)):
        _run(first_answer(ways, asked.answers("last"), 0.001))
    assert (asked.asked, asked.stopped) == (["a", "b"], ["a"])
    with pytest.raises(type(error)):
        _run(first_answer([asked.refuses("d")], asked.refuses("last", error), _LONG_S))
