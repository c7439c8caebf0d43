"""``streamlet query`` prints a key, a list of a key or a page of a store, by way of a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import streamlet as sl
from streamlet.errors import NotFoundError
from streamlet.state.query_errors import InvalidQueryError
from streamlet.tools import query as query_command
from streamlet.tools.command import Common
from streamlet.tools.main import build
from streamlet.tools.output import CommandOutput
from streamlet.tools.query import _cell, clients_of
from tests.unit.queries.served import Serving, filled
from tests.unit.reset.scene import ran
from tests.unit.web.served import server_of
from tests.unit.web.test_server import TOKEN

pytest.importorskip("aiohttp")


@pytest.fixture(scope="module")
def made() -> Iterator[Serving]:
    with filled() as found:
        yield found


@pytest.fixture(scope="module")
def url(made: Serving) -> Iterator[str]:
    with server_of(made.served, http_token=TOKEN) as server:
        yield server.url


def query(url: str, *words: str, token: str | None = TOKEN) -> Result:
    setting = [] if token is None else ["--set", f"http.token={token}"]
    command = ["query", "all", *words, "--url", url, "--timeout", "9", *setting]
    return CliRunner().invoke(build(), command)


def found(url: str, *words: str) -> Any:
    result = query(url, *words, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_key_has_its_value_with_position_and_staleness(made: Serving, url: str) -> None:
    count = made.store("counts", timeout_ms=60_000).get("k1")
    one = found(url, "counts", "k1")
    assert (one["key"], one["value"], one["staleness_ms"]) == ("k1", count, 0)
    assert one["position"]["in"]
    at_least = json.dumps(one["position"])
    more = ("--at-least", at_least, "--max-staleness", "1.5")
    assert found(url, "counts", "k1", *more) == one
    assert found(url, "counts", '"k1"', "--key-format", "json") == one
    plain = query(url, "counts", "k1")
    assert plain.stdout.split()[:5] == ["KEY", "VALUE", "TIMESTAMP", "k1", str(count)]


def test_an_absent_key_is_exit_code_3(url: str) -> None:
    absent = query(url, "counts", "nobody")
    assert (absent.exit_code, absent.stdout) == (3, "")
    assert "has no key 'nobody'" in absent.stderr


def test_pages_have_cursors_and_ends(made: Serving, url: str) -> None:
    keys = [key for key, _ in made.store("counts", timeout_ms=60_000).range("k1", "k3")]
    words, shown = ("counts", "--from", "k1", "--to", "k3", "--limit", "5"), []
    page = found(url, *words)
    while True:
        shown += [entry["key"] for entry in page["entries"]]
        if page["cursor"] is None:
            break
        page = found(url, *words, "--cursor", page["cursor"])
    assert shown == keys
    back = found(url, "counts", "--from", "k1", "--to", "k3", "--reverse", "--limit", "1000")
    assert [entry["key"] for entry in back["entries"]] == keys[::-1]
    few = query(url, *words)
    assert "there is more: --cursor " in few.stderr
    prefixed = found(url, "counts", "--prefix", "k1", "--limit", "1000")
    assert {entry["key"][:2] for entry in prefixed["entries"]} == {"k1"}


def test_headers_of_a_row_are_shown_as_those_of_a_record() -> None:
    headers = [["id", "Nw=="], ["none", None], ["no text", "/wA="]]
    entry = {"key": "a", "value": 1, "headers": headers}
    assert _cell("headers", entry) == "id:7,none:null,no text:/wA="
    assert _cell("headers", {"headers": [["id", "?"]]}) == [["id", "?"]]  # of another program


def test_a_key_has_its_windows(made: Serving, url: str) -> None:
    windows = made.store("windows", timeout_ms=60_000).fetch("k1", None, None)
    page = found(url, "windows", "k1", "--list", "windows", "--limit", "1000")
    assert [(one["start"], one["value"]) for one in page["entries"]] == [*windows]
    of_range = made.store("windows", timeout_ms=60_000).fetch("k1", "k2", None, None)
    page = found(url, "windows", "--from-key", "k1", "--to-key", "k2", "--limit", "1000")
    assert [one["key"] for one in page["entries"]] == [window.key for window, _ in of_range]


def test_it_says_what_is_wrong(url: str) -> None:
    assert query(url, "counts", "--list", "windows").exit_code == 2
    refused = query(url, "counts", "k1", token="x" * 20)
    assert (refused.exit_code, refused.stdout) == (5, "")
    assert "Authorization: Bearer" in refused.stderr
    unknown = query(url, "nothing", "k1")
    assert (unknown.exit_code, unknown.stdout) == (3, "")
    assert "no store 'nothing'" in unknown.stderr


def test_a_key_that_is_no_utf8_is_refused(url: str) -> None:
    """As the shell gives it: ``$'\\xff'`` has no bytes but those of Python's escape."""
    for words in (["counts", "\udcff"], ["counts", "--prefix", "\udcff"], ["\udcff", "k1"]):
        refused = query(url, *words)
        assert refused.exit_code == 2
        assert refused.stderr.startswith("error: '\\udcff' is no UTF-8; give such a key in base64")
    with pytest.raises(InvalidQueryError, match="no UTF-8"):
        sl.connect(url, token=TOKEN).store("counts").get("\udcff")


def test_a_file_that_cannot_be_read_is_named_with_its_option(url: str) -> None:
    words = ("counts", "k1", "--ca", "/nowhere/ca.pem")
    refused = CliRunner().invoke(build(), ["query", "all", *words, "--url", "https://localhost:1"])
    assert refused.stderr == "error: --ca = /nowhere/ca.pem: No such file or directory\n"


def test_an_unknown_application_is_told_from_one_without_queries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    common = Common(None, {}, CommandOutput(False))
    scene = ran()
    monkeypatch.setattr(query_command, "opened", lambda *_: nullcontext(scene.window()))
    with pytest.raises(NotFoundError, match="no instance of words serves queries"):
        clients_of(common, "words")
    scene.log.delete("words-streamlet-control")
    with pytest.raises(NotFoundError, match=r"no application 'words' .*, did you mean words-eu\?"):
        clients_of(common, "words")
