"""The API reference: every operator has an example, and each example prints what is shown."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from streamlet.dsl.branched import BranchedKStream
from streamlet.dsl.cogrouped import CogroupedKStream, WindowedCogroupedKStream
from streamlet.dsl.grouped import KGroupedStream
from streamlet.dsl.stream import KStream
from streamlet.dsl.table import KTable
from streamlet.dsl.windowed import WindowedKStream

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "reference"
PAGES = {path.name: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.md"))}
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n^```text\n(.*?)^```$", re.M | re.S)
IMPORTS = re.findall(r"^```python\n(.*?)^```$", PAGES["index.md"], re.M | re.S)[0]
EXAMPLES = [
    pytest.param(code, shown, id=f"{page}-{number}")
    for page, text in PAGES.items()
    for number, (code, shown) in enumerate(EXAMPLE.findall(text), 1)
]


@pytest.mark.parametrize(("code", "shown"), EXAMPLES)
def test_an_example_prints_what_the_page_shows(
    code: str, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("example")  # classes of the example look up their module
    monkeypatch.setitem(sys.modules, "example", module)
    exec(IMPORTS + code, vars(module))
    assert capsys.readouterr().out == shown


def test_all_code_on_the_pages_is_an_example() -> None:
    blocks = [code for page in PAGES.values() for code in re.findall(r"^```python\n", page, re.M)]
    assert len(blocks) == len(EXAMPLES) + 2  # the beginnings of both kinds of examples


def test_the_readme_names_every_operator_of_streams_and_tables() -> None:
    readme = (FOLDER.parents[1] / "README.md").read_text("utf-8")
    named = set(re.findall(r"`(\w+)`", readme.partition("## What the language has")[2]))
    operators = {
        name
        for kind in (KStream, KGroupedStream, KTable)
        for name, _ in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }
    assert operators - named == set()


def test_every_operator_has_a_section_with_an_example() -> None:
    operators = {"streamlet.App.stream", "streamlet.App.table"} | {
        f"streamlet.{kind.__name__}.{name}"
        for kind in (
            KStream,
            BranchedKStream,
            CogroupedKStream,
            KTable,
            KGroupedStream,
            WindowedKStream,
            WindowedCogroupedKStream,
        )
        for name, _ in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }
    sections = [
        section
        for page in PAGES.values()
        for section in re.findall(r"^::: ([\w.]+)\n(.*?)(?=^:::|\Z)", page, re.M | re.S)
    ]
    with_example = {
        name
        for name, text in sections
        if f".{name.rpartition('.')[2]}(" in text and EXAMPLE.search(text)
    }
    assert len(operators) > 20
    assert operators - with_example == set()
