"""The pages of faults have what the code's table says, and what was seen of each other fault."""

from __future__ import annotations

from streamlet.coordinator.codes import NAMES, TABLE
from tests.faults.cases import CASES, DOCUMENTED, GUARANTEES
from tests.faults.page import PAGES, of_group, recorded, with_rows


def test_the_pages_are_what_the_table_and_the_record_make() -> None:
    for page, apis in PAGES.items():
        text = page.read_text("utf-8")
        assert with_rows(text, recorded(), apis) == text


def test_each_fault_was_seen_under_each_guarantee_that_sends_such_requests() -> None:
    known = recorded()
    lacking = [
        f"{guarantee}: {case}"
        for guarantee in GUARANTEES
        for case in CASES
        if case.sent_under(guarantee) and (guarantee, case) not in known
    ]
    assert lacking == [], "python -m tests.faults --missing --record"


def test_each_code_of_the_groups_table_has_a_row_and_a_fault() -> None:
    rows = of_group()
    for kind, code in TABLE:
        if code:
            assert NAMES[code] in DOCUMENTED[kind]
            assert any(row.startswith(f"| {kind} |") and f"`{NAMES[code]}`" in row for row in rows)
