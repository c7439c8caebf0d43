"""Parsers of requests of HTTP: the parameters of queries, keys and cursors."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import parse_qsl

from streamlet.serdes import serde
from streamlet.state.query_errors import InvalidQueryError
from streamlet.web.asked import Asked
from streamlet.web.keys import key_of
from streamlet.web.pages import task_page
from tests.fuzz.target import Target


def _query(raw: bytes) -> None:
    given = dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True))
    key = given.pop("key", "7")
    asked = Asked.of("store", key if "as_of" in given else None, "", given)
    asked.times()
    for kind in (str, bytes, int, float, dict, list[int]):
        with suppress(InvalidQueryError):  # it is no key of that type
            key_of(serde(kind), key, asked.form)
    task_page([((7, "6b"), {"key": key})], asked.bounds)


HTTP = (
    Target(
        "query over HTTP",
        _query,
        (InvalidQueryError,),
        (
            b"from=1&to=9&reverse=true&limit=7",
            b"key=3&as_of=3",
            b"key=12&cursor=W1sxLCI2YiJdLDFd&timeout=1.5",
            b"key=%5B1%2C2%5D&key-format=json&partition=3",
            b'key=AAAA&key-format=base64&at_least={"t":{"0":5}}&newest=true',
        ),
        (b"cursor=W1sxLCI-1180591620717411303425YiJdLDFd",),
    ),
)
