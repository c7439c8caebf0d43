"""Each code block of the guides runs as printed, page by page; each command exists.

The README's blocks run on a broker, in ``tests/integration/test_readme.py``.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import typer.main

import streamlet as sl
from docs.hooks.concept_pictures import PICTURES
from streamlet.tools.main import build

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = [
    DOCS / "index.md",
    DOCS / "getting-started.md",
    DOCS / "faq.md",
    DOCS / "models.md",
    *sorted((DOCS / "concepts").glob("*.md")),
    *sorted((DOCS / "howto").glob("*.md")),
]
BLOCK = re.compile(
    r"^```python(?: title=\"(?P<title>[^\"]+)\")?(?P<broker> test=\"broker\")?\n(?P<code>.*?)^```$"
    r"(?:\n\n^```text\n(?P<shown>.*?)^```$)?",
    re.M | re.S,
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text("utf-8")
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) == text.count("```python")
    module = ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", module)
    for block in blocks:
        if (block["title"] or "").endswith(".py"):
            monkeypatch.setitem(sys.modules, block["title"].removesuffix(".py"), module)
        if block["broker"]:
            continue  # the README has the same cell, which runs on a broker
        exec(compile(block["code"], str(page), "exec"), vars(module))
        assert capsys.readouterr().out == (block["shown"] or "")


def test_code_that_needs_more_than_a_page_has_names_that_exist() -> None:
    """The other pages have parts of programs, and what needs brokers, a registry or Spark."""
    blocks = [
        (page.name, ast.walk(ast.parse(code)))
        for page in DOCS.rglob("*.md")
        if page not in PAGES
        for code in re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    ]
    assert len(blocks) > 50
    missing = []
    for page, nodes in blocks:
        for node in nodes:
            match node:
                case ast.Attribute(ast.Name("sl" | "streamlet"), name):
                    missing += [] if hasattr(sl, name) else [(page, name)]
                case ast.ImportFrom(str(room), names) if room.startswith("streamlet"):
                    there = dir(import_module(room))
                    missing += [(page, one.name) for one in names if one.name not in there]
    assert missing == []


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_a_concept_is_drawn_by_its_code(name: str) -> None:
    """Else run `python docs/hooks/concept_pictures.py`."""
    file = DOCS / "pictures" / f"concept-{name}.svg"
    assert file.read_text("utf-8") == PICTURES[name]().svg()


def typed() -> list[str]:
    """Each command of streamlet in the guides and in the README."""
    text = "".join(page.read_text("utf-8") for page in (*PAGES, DOCS.parent / "README.md"))
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S))
    return re.findall(r"^(?:printf.* \| )?streamlet (.*?)(?:\s+#.*)?$", blocks, re.M)


@pytest.mark.parametrize("line", typed())
def test_a_command_that_is_shown_exists_with_its_options(line: str) -> None:
    command = typer.main.get_command(build())
    words = shlex.split(line)
    while inner := getattr(command, "commands", None):
        command = inner[words.pop(0)]
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    assert {word for word in words if word.startswith("--")} - options == set()
