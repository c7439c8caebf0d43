"""Pages of several tasks as one page: in order, whole, and bounded in bytes."""

from __future__ import annotations

import random

import pytest

from streamlet.web.pages import Bounds, TaskPage, cursor_behind, merged_page, task_page

PLACES = [(f"{number:04x}",) for number in range(60)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("limit", "size"), [(7, 1_000), (1_000, 40), (5, 40)])
def test_pages_of_many_tasks_are_whole_and_few_bytes(
    monkeypatch: pytest.MonkeyPatch, limit: int, size: int, reverse: bool
) -> None:
    monkeypatch.setattr("streamlet.web.pages.MOST_BYTES", size)
    chance = random.Random(limit + size)
    tasks: list[list[tuple[str]]] = [[] for _ in range(5)]
    for place in PLACES:
        chance.choice(tasks).append(place)
    found: list[object] = []
    bounds = Bounds(limit, None, reverse)
    while True:
        page = TaskPage([], more=False)
        for task in chance.sample(tasks, len(tasks)):
            entries = ((place, place[0]) for place in sorted(task, reverse=reverse))
            page = merged_page([page, task_page(entries, bounds)], bounds)
        assert len(page.entries) <= limit
        assert sum(len(raw) for _, raw in page.entries) < size + 10
        found += [place for place, _ in page.entries]
        cursor = cursor_behind(page, bounds)
        if cursor is None:
            break
        bounds = Bounds(limit, cursor, reverse)
    assert found == sorted(PLACES, reverse=reverse)


def test_entries_that_share_a_place_are_on_the_next_page() -> None:
    entries = [((1,), number) for number in range(5)]
    bounds, found = Bounds(2), []
    while True:
        page = merged_page([task_page(iter(entries), bounds)], bounds)
        found += [bytes(raw) for _, raw in page.entries]
        cursor = cursor_behind(page, bounds)
        if cursor is None:
            break
        bounds = Bounds(2, cursor)
    assert found == [b"0", b"1", b"2", b"3", b"4"]
