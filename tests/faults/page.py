"""The pages ``docs/internals/faults*.md``: what each fault of a request leads to.

What answers of the group's coordinator lead to is ``coordinator.codes``; the rest was seen by
``python -m tests.faults --record``, which adds what is new. The pages are the record.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from streamlet.coordinator.codes import NAMES, TABLE, Remedy, RequestKind
from tests.faults.cases import CASES, DOCUMENTED, GUARANTEES, Case

_FOLDER = Path(__file__).parents[2] / "docs" / "internals"
#: Each page, with the kinds of requests whose faults it has as they were seen.
PAGES: dict[Path, frozenset[str]] = {
    _FOLDER / "faults.md": frozenset(DOCUMENTED) - frozenset(RequestKind),
    _FOLDER / "faults-in-groups.md": frozenset(RequestKind),
}
#: What was seen of a case under a guarantee: one or several, by how fast the machine was.
Seen = dict[tuple[str, Case], frozenset[str]]

_REMEDIES = {
    Remedy.PROCEED: "as if there were no error",
    Remedy.RETRY: "asked again",
    Remedy.REFIND: "the coordinator is looked up, and asked again",
    Remedy.IDENTIFY: "joins again with the id that it was given",
    Remedy.REJOIN: "joins again, with its tasks",
    Remedy.SHRINK: "joins again, and says less of itself",
    Remedy.UNSTABLE: "asked again, until the open transaction has ended",
    Remedy.REFUSED: "not asked again: the worker ends, and starts again",
    Remedy.UNKNOWN: "may have happened: all tasks of the worker begin again at their commits",
    Remedy.STALE: "joins again without its tasks, unless it is about to join anyway",
    Remedy.RESET: "joins again as another member, without its tasks",
    Remedy.OTHER_TYPE: "joins as a member of the group's other type; if there is none, it ends",
    Remedy.FATAL: "the worker ends: `… of group … was refused: …`",
    Remedy.FENCED: "the worker ends: another process has its `group.instance.id`",
}
_GROUP, _OTHERS = ("<!-- the group's -->", "<!-- seen -->")
_OR = "; or "
_NOT_SENT, _NOT_SEEN = "not sent", "not seen"


def of_group() -> list[str]:
    """The rows of the requests to a group, from the code's table."""
    rows: dict[tuple[RequestKind, Remedy], list[str]] = defaultdict(list)
    for (kind, code), remedy in TABLE.items():
        if code:
            rows[kind, remedy].append(f"`{NAMES[code]}`")
    return [
        f"| {kind} | {', '.join(sorted(names))} | {_REMEDIES[remedy]} |"
        for (kind, remedy), names in rows.items()
    ]


def recorded() -> Seen:
    """What the pages have of what was seen."""
    return {
        key: outcomes
        for page in PAGES
        for key, outcomes in seen_in(page.read_text("utf-8")).items()
    }


def record(new: Mapping[tuple[str, Case], Iterable[str]]) -> None:
    """Add what is new to the pages."""
    rows = merged(recorded(), new)
    for page, apis in PAGES.items():
        page.write_text(with_rows(page.read_text("utf-8"), rows, apis), "utf-8")


def seen_in(text: str) -> Seen:
    """What a page has of what was seen."""
    by_name = {(case.api, _named(case)): case for case in CASES}
    found: Seen = {}
    for line in _part(text, _OTHERS).splitlines()[2:]:
        api, names, *outcomes = (cell.strip() for cell in line.strip("| ").split(" | "))
        for name in re.findall(r"`[^`]+`(?: done)?", names):
            for guarantee, outcome in zip(GUARANTEES, outcomes, strict=True):
                if outcome not in (_NOT_SENT, _NOT_SEEN):
                    found[guarantee, by_name[api, name]] = frozenset(outcome.split(_OR))
    return found


def with_rows(text: str, seen: Seen, apis: Collection[str]) -> str:
    """A page with the rows of these kinds of requests; where it has the code's table, with that."""
    if _GROUP in text:
        head = "| request | error | leads to |\n|---|---|---|"
        text = _with_part(text, _GROUP, "\n".join([head, *of_group()]))
    rows: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for case in (one for one in CASES if one.api in apis):
        outcomes = [
            _OR.join(sorted(seen.get((one, case), ())))
            or (_NOT_SEEN if case.sent_under(one) else _NOT_SENT)
            for one in GUARANTEES
        ]
        if not {*outcomes} <= {_NOT_SENT, _NOT_SEEN}:
            rows[case.api, *outcomes].append(_named(case))
    head = f"| request | fault | {' | '.join(GUARANTEES)} |\n|---|---|---|---|"
    lines = [
        f"| {api} | {', '.join(names)} | {' | '.join(outcomes)} |"
        for (api, *outcomes), names in rows.items()
    ]
    return _with_part(text, _OTHERS, "\n".join([head, *lines]))


def merged(seen: Seen, new: Mapping[tuple[str, Case], Iterable[str]]) -> Seen:
    """Both together."""
    together = dict(seen)
    for key, outcomes in new.items():
        together[key] = together.get(key, frozenset()) | frozenset(outcomes)
    return together


def _named(case: Case) -> str:
    return f"`{case.effect}`{' done' if case.after else ''}"


def _part(text: str, mark: str) -> str:
    return text.split(f"{mark}\n")[1].strip("\n")


def _with_part(text: str, mark: str, part: str) -> str:
    before, _, after = text.split(f"{mark}\n")
    return f"{before}{mark}\n{part}\n\n{mark}\n{after}"
