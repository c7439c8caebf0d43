"""Which line of a traceback is the user's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import streamlet as sl
from streamlet import user_code
from streamlet.errors import ProcessingError, StreamletError, error_text
from streamlet.serdes import json as json_serde
from streamlet.testing import TopologyTestDriver
from streamlet.user_code import Place, raised_at


def divide(number: int) -> int:
    return 1 // number


def parse(text: str) -> object:
    return json.loads(text)


def raised(function: Callable[..., object], *given: object) -> BaseException:
    with pytest.raises(Exception) as caught:
        function(*given)
    steps = caught.value.__traceback__
    assert steps is not None
    return caught.value.with_traceback(steps.tb_next)  # without this function's own line


def line_of(function: Callable[..., object]) -> int:
    return function.__code__.co_firstlineno + 1


def test_the_line_that_raised_comes_first_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    error = raised(divide, 0)
    place = f"test_user_code.py:{line_of(divide)} in divide, `return 1 // number`"
    assert error_text(error) == f"{place}: ZeroDivisionError: {error}"
    assert "by zero" in str(error)


def test_a_library_is_not_to_blame_but_the_line_that_called_it() -> None:
    assert raised_at(raised(parse, "{")) == Place(__file__, line_of(parse), "parse")


def test_a_builtin_has_no_line() -> None:
    assert raised_at(raised(int, "x")) is None
    assert error_text(raised(int, "x")).startswith("ValueError: invalid literal")


def test_our_own_lines_are_never_named() -> None:
    assert raised_at(raised(json_serde, 1, 2, 3)) is None


def test_of_a_program_that_is_installed_the_function_is_named_that_was_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = str(Path(__file__).parent)
    monkeypatch.setattr(user_code, "_LIBRARIES", (*user_code._LIBRARIES, here))
    assert raised_at(raised(parse, "{")) == Place(__file__, line_of(parse), "parse")


def test_a_notebook_shows_the_message_and_the_lines_of_the_program_alone() -> None:
    app = sl.App("a")
    app.stream("in", key=str, value=int).map_values(lambda value: 1 // value, value=int).to("out")
    with pytest.raises(ProcessingError) as raised, TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "\x1b[2J", 0)
    message, *lines, rest = raised.value._render_traceback_()
    assert message == f"ProcessingError: {raised.value}"
    assert "`app.stream" in message
    assert "ZeroDivisionError" in message
    assert [line.partition(":")[0].strip() for line in lines] == ["tests/unit/test_user_code.py"]
    assert "driver.pipe_input" in lines[0]
    assert "traceback.print_exception" in rest


def test_a_notebook_is_not_steered_by_the_text_of_an_error() -> None:
    assert StreamletError("a\x1b[2Jb")._render_traceback_()[0] == "StreamletError: a␛[2Jb"
