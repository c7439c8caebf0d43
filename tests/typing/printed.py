"""The programs that README and documents print, as modules that a type checker can read.

Each line stands in its module where it stands on its page, so that a message names the page's
line. A block that imports streamlet, or that is a file which another one imports, begins a module;
others go on with the one before. Of the reference each example is a module behind the imports of
its first page.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```python(?: title=\"([^\"]+)\")?[^\n]*\n(.*?)^```$", re.M | re.S)
#: The README's blocks have no titles.
README_FILES = ("words.py", "cell.py", "test_words.py")


def write_modules(into: Path) -> dict[str, str]:
    """Write all modules into a folder; where each is printed, by the name of its file."""
    found = _of_page(ROOT / "README.md", README_FILES)
    imports = _blocks(DOCS / "reference" / "index.md")[0][2]
    for page in sorted(DOCS.rglob("*.md")):
        examples = page.parent.name == "reference" and page.name != "index.md"
        more = _examples(page, imports) if examples else _of_page(page)
        assert not found.keys() & more.keys(), "two pages have a file of one name"
        found |= more
    for name, (_, text) in found.items():
        (into / name).write_text(text, "utf-8")
    return {name: page for name, (page, _) in found.items()}


def _blocks(page: Path) -> list[tuple[int, str, str]]:
    """Lines before a block, its title and its text."""
    text = page.read_text("utf-8")
    return [
        (text.count("\n", 0, block.start(2)), block[1] or "", block[2])
        for block in BLOCK.finditer(text)
    ]


def _of_page(page: Path, files: tuple[str, ...] = ()) -> dict[str, tuple[str, str]]:
    found: dict[str, list[str]] = {}
    text = page.read_text("utf-8")
    name, shown = "", page.relative_to(ROOT).as_posix()
    for number, (before, title, code) in enumerate(_blocks(page)):
        if files:
            name = files[number]
        elif f"from {title.removesuffix('.py')} import" in text or title.startswith("test_"):
            name = title
        elif not name or "import streamlet as sl\n" in code:
            name = f"{_stem(page)}_{before + 1}.py"
        lines = found.setdefault(name, [])
        lines += [""] * (before - len(lines)) + code.splitlines()
    return {name: (shown, "\n".join(lines) + "\n") for name, lines in found.items()}


def _examples(page: Path, imports: str) -> dict[str, tuple[str, str]]:
    found = {}
    for before, _, code in _blocks(page):
        # In one line, so that those of the page keep their numbers.
        first = "; ".join(line for line in imports.splitlines() if line)
        text = first + "\n" * before + code
        found[f"{_stem(page)}_{before + 1}.py"] = (page.relative_to(ROOT).as_posix(), text)
    return found


def _stem(page: Path) -> str:
    return re.sub(r"\W", "_", page.relative_to(ROOT).with_suffix("").as_posix())
