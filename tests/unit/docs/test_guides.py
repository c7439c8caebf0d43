"""Each code block of a page runs as printed, from top to bottom; each command exists.

Those of the reference have a test of their own, and what needs a broker runs in
``tests/integration/test_guides.py``, the README's in ``test_readme.py``.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer.main

from docs.hooks.concept_pictures import PICTURES
from streamlet.records.lines import InputRecord
from streamlet.tools.main import build
from streamlet.tools.topics_write import line_reader

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if page.parent.name != "reference" and "```python" in page.read_text("utf-8")
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
            continue
        exec(compile(block["code"], str(page), "exec"), vars(module))
        assert capsys.readouterr().out == (block["shown"] or "")


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_a_concept_is_drawn_by_its_code(name: str) -> None:
    """Else run `python docs/hooks/concept_pictures.py`."""
    file = DOCS / "pictures" / f"concept-{name}.svg"
    assert file.read_text("utf-8") == PICTURES[name]().svg()


def typed() -> list[str]:
    """Each command of streamlet on a page and in the README."""
    pages = (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md")))
    text = "".join(page.read_text("utf-8") for page in pages)
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)).replace("\\\n", " ")
    return sorted({*re.findall(r"^(?:printf.* \| )?streamlet (.*?)(?:\s+#.*)?$", blocks, re.M)})


@pytest.mark.parametrize("line", typed())
def test_a_command_that_is_shown_exists_with_its_options(line: str) -> None:
    command = typer.main.get_command(build())
    words = shlex.split(line)
    while inner := getattr(command, "commands", None):
        command = inner[words.pop(0)]
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    assert {word for word in words if word.startswith("--")} - options == set()


def fed() -> list[str]:
    """Each command on a page that writes printed lines to a topic."""
    pages = (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md")))
    text = "".join(page.read_text("utf-8") for page in pages)
    return re.findall(r"^(printf.* \| streamlet topics write .*)$", text, re.M)


@pytest.mark.parametrize("line", fed())
def test_lines_that_a_page_writes_to_a_topic_are_records(line: str) -> None:
    printed, _, typed_words = line.partition(" | streamlet topics write ")
    shown = subprocess.run(["sh", "-c", printed], capture_output=True, text=True, check=True)
    command = typer.main.get_command(build()).commands["topics"].commands["write"]
    given = command.make_context("write", shlex.split(typed_words)).params
    reader = line_reader(given["format_"], given["key"], given["value"])
    found = list(reader.records(shown.stdout.splitlines()))
    assert [type(one) for one in found] == [InputRecord] * len(found)
