"""Errors whose own text fails or has no bytes, and a folder that is gone: still for the policy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import ProcessingError, UncaughtHandlerError, error_text
from streamlet.testing import TopologyTestDriver
from streamlet.user_code import printable, shown, text_of, working_folder


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class ExitingText(Exception):
    def __str__(self) -> str:
        raise SystemExit("no text")


class NoClass(Exception):
    """Cannot be asked by ``isinstance`` of which class it is."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no class")


class WrongText(Exception):
    def __str__(self) -> Any:
        return 7


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class HalfRepr:
    def __repr__(self) -> str:
        return "half \ud83d"


def raising(error: BaseException) -> Callable[[Any], Any]:
    def fail(value: Any) -> Any:
        raise error

    return fail


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], bytes]] = {
    "half a pair": (raising(ValueError("user \ud83d")), rb"user \ud83d"),
    "no text": (raising(NoText()), b"<str failed: RuntimeError>"),
    "text exits": (raising(ExitingText()), b"<str failed: SystemExit>"),
    "wrong text": (raising(WrongText()), b"<str failed: TypeError>"),
    "no class": (raising(NoClass("no class")), b"no class"),
    "group": (raising(ExceptionGroup("\ud83d", [NoText()])), rb"\ud83d (1 sub-exception)"),
}
#: What takes part in the result of a function, and is shown in the error.
RESULTS = {"no repr": NoRepr(), "half a pair": HalfRepr(), "long": "x" * 1_000}


def written(build: Callable[[Any], Any], policy: Any = ("dead_letter", "dlq")) -> dict[str, Any]:
    """The reason of the dead letter that a record leaves."""
    app = sl.App("errors", on_error=policy)
    build(app.stream("in", key=str, value=str)).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "k", "v")
        if policy == "skip":
            assert driver.skipped() == 1
            return {}
        (letter,) = driver.read_output("dlq")
        return dict(letter.headers or ())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_fails_with_such_an_error_leaves_a_dead_letter(name: str) -> None:
    function, text = FUNCTIONS[name]
    build = lambda stream: stream.map_values(function, value=str)  # noqa: E731
    assert written(build)["streamlet.message"] == text
    written(build, "skip")
    with pytest.raises(ProcessingError) as failed:
        written(build, "fail")
    assert text.decode() in str(failed.value).encode().decode()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_serde_and_an_extractor_and_a_partitioner_that_fail_so(name: str) -> None:
    function, text = FUNCTIONS[name]
    one = lambda *given: function(given[0])  # noqa: E731
    sinks: list[Callable[[Any], Any]] = [
        lambda s: s.map_values(len, value=(one, bytes.decode)),
        lambda s: s.map_values(len, value=int).repartition(name="r", partitions=2, partitioner=one),
        lambda s: s.process(lambda record, state: function(record), key=str, value=str),
        lambda s: s.filter(one),
        lambda s: s.group_by_key().aggregate(str, one, value=str).to_stream(),
    ]
    for build in sinks:
        assert text in written(build)["streamlet.message"]
    for source in ({"timestamp": one}, {"value": (str.encode, one)}):
        app = sl.App("errors", on_error=("dead_letter", "dlq"))
        app.stream("in", key=str, **{"value": str, **source}).to("out")
        with TopologyTestDriver(app) as driver:
            driver.pipe_bytes("in", b"k", b"v")
            (letter,) = driver.read_output("dlq")
        assert text in (dict(letter.headers or ())["streamlet.message"] or b"")


@pytest.mark.parametrize("name", RESULTS)
def test_an_object_that_cannot_be_shown_hides_no_error(name: str) -> None:
    given = RESULTS[name]
    builds: list[Callable[[Any], Any]] = [
        lambda s: s.map(lambda k, v: given, key=str, value=str),
        lambda s: s.map_values(lambda v: given, value=int),
        lambda s: s.process(lambda record: given, key=str, value=str),
        lambda s: s.process(lambda record: sl.Record("k", "v", given), key=str, value=str),  # type: ignore[arg-type]
    ]
    for build in builds:
        message = written(build)["streamlet.message"]
        assert b"expected" in message
        assert len(message) < 300


def test_a_handler_that_fails_so_ends_the_task_with_both_errors() -> None:
    def handler(*given: Any) -> Any:
        raise NoText

    app = sl.App("errors", processing_handler=handler)
    app.stream("in", key=str, value=str).map_values(raising(NoText()), value=str).to("out")
    with TopologyTestDriver(app) as driver, pytest.raises(ProcessingError) as failed:
        driver.pipe_input("in", "k", "v")
    assert str(failed.value).count("NoText: <str failed: RuntimeError>") == 2


def test_a_folder_that_is_gone_hides_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    os.rmdir(gone)
    assert working_folder() is None
    build = lambda stream: stream.map_values(raising(ValueError("plain")), value=str)  # noqa: E731
    assert written(build)["streamlet.message"] == b"plain"
    with pytest.raises(ProcessingError, match=r"test_errors_in_errors.py:\d+ in fail, .*plain"):
        written(build, "fail")
    with pytest.raises(sl.StreamletError, match="no module 'nothing_of_the_kind'"):
        sl.load_app("nothing_of_the_kind:app")


def test_texts_have_bytes_whatever_they_are_of() -> None:
    for text in (text_of(ValueError("\ud83d")), shown(HalfRepr()), printable("a\udc00b")):
        assert text.encode()
    assert error_text(UncaughtHandlerError("x\ud83d")).endswith(r"x\ud83d")
    assert shown("x" * 100, 10) == "'xxxxxxxxx…"
    with pytest.raises(KeyboardInterrupt):
        text_of(Interrupted())


class Interrupted(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt
