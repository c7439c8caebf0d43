"""The table of rights in ``docs/operations/rights.md``, whose lines are the cases of tests."""

from __future__ import annotations

from pathlib import Path

import attrs

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "rights.md"


@attrs.frozen
class Row:
    """A line of the table: what ``who`` needs, and what becomes of it without."""

    who: tuple[str, ...]
    on: tuple[str, ...]
    rights: tuple[str, ...]
    without: str


def rows() -> list[Row]:
    """The table."""
    lines = PAGE.read_text().partition("| who | on | right | without |")[2].splitlines()[2:]
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        who, on, rights, without = (cell.strip() for cell in line.strip("|").split("|"))
        cells = (tuple(part.strip() for part in cell.split(",")) for cell in (who, on, rights))
        found.append(Row(*cells, without))  # type: ignore[arg-type]
    return found
