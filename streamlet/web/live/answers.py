"""The answers of the live page: its files, what browsers may do with them, and its document."""

from __future__ import annotations

import asyncio
from functools import cache
from importlib.resources import files

from streamlet.state.query_errors import StreamsNotStartedError
from streamlet.web.answers import HttpAnswer
from streamlet.web.live.reader import LiveReader

#: The files by their names in addresses, with their types.
FILES = {
    "index.html": "text/html",
    "page.css": "text/css",
    "page.js": "text/javascript",
    "graph.js": "text/javascript",
    "stores.js": "text/javascript",
    "simulator.js": "text/javascript",
    "elements.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
#: No script, style or address but this server's, no form that leaves it, in no other site's frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: How long an answer waits for the first document, and how often it looks for it, s.
FIRST_S, _LOOK_S = 8.0, 0.05
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def live_answer(feed: LiveReader, parts: list[str]) -> HttpAnswer | None:
    """The answer to an address of the live page; None: it is none."""
    match parts:
        case [""]:
            return page_file("index.html")
        case ["live.json"]:
            return await _document(feed)
        case ["page", name] if name in FILES:
            return page_file(name)
    return None


async def _document(feed: LiveReader) -> HttpAnswer:
    for _ in range(round(FIRST_S / _LOOK_S)):
        found = feed.newest()
        if found is not None:
            return HttpAnswer(200, found)
        await asyncio.sleep(_LOOK_S)
    raise StreamsNotStartedError("the application is being read for the first time; ask again")


def playback(page: bytes) -> HttpAnswer:
    """The answer with a page that plays a simulation, whose own policy allows what is in it."""
    own = {name: text for name, text in _HEADERS.items() if name != "Content-Security-Policy"}
    return HttpAnswer(200, page, own, "text/html")


@cache
def page_file(name: str) -> HttpAnswer:
    """The answer with a file of ``FILES``."""
    body = (files("streamlet.web.live") / "page" / name).read_bytes()
    return HttpAnswer(200, body, dict(_HEADERS), f"{FILES[name]}")
