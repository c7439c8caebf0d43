"""Session windows: what a visitor looks at until there is half an hour of silence.

    streamlet broker start
    streamlet topics create clicks visits --partitions 4
    streamlet run examples.windows.session:app

The topic ``visits`` has the pages of every visit, keyed by the visitor with the times of the first
and the last click. A click between two visits joins them: the two are deleted, and the
joined one is written.
"""

from __future__ import annotations

import streamlet as sl


def visited(visitor: str, page: str, pages: list[str]) -> list[str]:
    return [*pages, page]


def joined(visitor: str, earlier: list[str], later: list[str]) -> list[str]:
    return earlier + later


app = sl.App("visits")

clicks = app.stream("clicks", key=str, value=str)
visits = clicks.group_by_key().windowed_by(sl.session("30m", grace="1m"))
visits.aggregate(list, visited, joined, value=list, store="visits").to_stream().to("visits")
