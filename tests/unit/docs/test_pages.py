"""The pages of the documentation are short enough to be read, and lists of keys are whole."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import streamlet.admin.status
from streamlet.hosting.run import OutputValue

DOCS = Path(__file__).resolve().parents[3] / "docs"
#: As ``wc -w`` counts, tables and code included.
MOST_WORDS = 3_000


def test_no_page_has_more_words_than_are_read_at_once() -> None:
    """Else make two of it, by subject."""
    words = {
        page.relative_to(DOCS).as_posix(): len(page.read_text("utf-8").split())
        for page in DOCS.rglob("*.md")
    }
    assert len(words) > 50
    assert {page: count for page, count in words.items() if count > MOST_WORDS} == {}


def test_each_key_of_the_status_document_stands_on_its_page() -> None:
    tree = ast.parse(Path(streamlet.admin.status.__file__).read_text("utf-8"))
    keys = {
        key.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant)
    }
    page = (DOCS / "operations" / "json.md").read_text("utf-8")
    assert len(keys) > 50
    assert keys - {*re.findall(r"`(\w+)`", page)} == set()


def test_the_columns_of_a_table_of_results_stand_in_the_guide_to_notebooks() -> None:
    columns = ", ".join(field.name for field in fields(OutputValue))
    said = "`pd.DataFrame(results)` is a table of them: "
    assert f"{said}{columns}." in (DOCS / "howto" / "notebooks.md").read_text("utf-8")
