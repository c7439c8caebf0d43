"""Counts the code lines of ``streamlet/``, room by room: ``python -m tests.code_lines``.

A line counts if a token of code stands on it; docstrings, comments and blank lines do not. Paths
that are given are counted in place of the package.
"""

from __future__ import annotations

import ast
import sys
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "streamlet"

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def code_lines(path: Path) -> int:
    """The number of lines of code in a file."""
    with path.open("rb") as file:
        tokens = [one for one in tokenize.tokenize(file.readline) if one.type not in _NO_CODE]
    lines = {line for one in tokens for line in range(one.start[0], one.end[0] + 1)}
    return len(lines - docstring_lines(path))


def docstring_lines(path: Path) -> set[int]:
    """The numbers of the lines that a docstring stands on."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case (
                ast.Module(body=[ast.Expr(ast.Constant(str())) as text, *_])
                | ast.ClassDef(body=[ast.Expr(ast.Constant(str())) as text, *_])
                | ast.FunctionDef(body=[ast.Expr(ast.Constant(str())) as text, *_])
                | ast.AsyncFunctionDef(body=[ast.Expr(ast.Constant(str())) as text, *_])
            ):
                found.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
            case _:
                pass
    return found


def by_room(root: Path) -> Counter[str]:
    """The code lines of a folder, by its folders; files that stand in none are under ``.``."""
    counted: Counter[str] = Counter()
    for path in [*root.rglob("*.py"), *root.rglob("*.pyi")] if root.is_dir() else [root]:
        inside = path.relative_to(root).parts
        counted[inside[0] if len(inside) > 1 else "."] += code_lines(path)
    return counted


def main() -> None:
    """Print a line for each folder, the largest first, and the sum."""
    for root in [Path(one) for one in sys.argv[1:]] or [PACKAGE]:
        counted = by_room(root)
        for room, lines in counted.most_common():
            print(f"{lines:7,} {room}")
        print(f"{counted.total():7,} {root.name}")


if __name__ == "__main__":
    main()
