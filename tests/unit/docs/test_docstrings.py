"""Each operator has an example in its docstring, and the example shows what it does."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable, Iterator

import pytest

import streamlet as sl
from tests.unit.docs.examples import beginning

KINDS = (
    sl.KStream,
    sl.KTable,
    sl.KGroupedStream,
    sl.KGroupedTable,
    sl.WindowedKStream,
    sl.CogroupedKStream,
    sl.WindowedCogroupedKStream,
    sl.BranchedKStream,
)
FLAGS = doctest.NORMALIZE_WHITESPACE


def operators() -> Iterator[tuple[str, Callable[..., object]]]:
    """Every public method that a topology is written with."""
    for kind in KINDS:
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                yield f"{kind.__name__}.{name}", method
    for method in (sl.App.stream, sl.App.table, sl.App.global_table):
        yield f"App.{method.__name__}", method


OPERATORS = dict(operators())


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_does_what_its_example_shows(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = inspect.getdoc(OPERATORS[name]) or ""
    example = doctest.DocTestParser().get_doctest(text, beginning(), name, None, 0)
    runs = [one for one in example.examples if one.want and "run(" in one.source]
    assert runs, f"the docstring of {name} has no example that runs"
    shown: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=shown.append)
    assert not failed, "".join(shown)
