"""The live page over HTTP: its files and their policy, who may read it, and who reads for it."""

from __future__ import annotations

import base64
import http.client
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest

from streamlet.clock import ManualClock, SystemClock
from streamlet.config import Settings
from streamlet.errors import BrokerError
from streamlet.state.query_errors import (
    InvalidQueryError,
    QueryRefusedError,
    StateStoreMigratedError,
)
from streamlet.web.live.answers import FILES, POLICY
from streamlet.web.live.reader import FRESH_MS, PAGE_MS, UNASKED_S, LiveReader, period_ms
from streamlet.web.live.server import LivePageServer
from streamlet.web.live.simulations import MOST_BYTES, Simulations
from tests.unit.web.live.made_up import MadeUp

TOKEN = "a-token-of-tests"


class _Feed:
    """A feed whose document a test sets."""

    document: bytes | None = b'{"age_ms":0,"problem":null,"document":null}'

    def newest(self) -> bytes | None:
        return self.document


def _ask(path: str, parameters: dict[str, str]) -> dict[str, Any]:
    if path == "/stores/gone":
        raise StateStoreMigratedError("no instance answers; ask again")
    return {"path": path, "parameters": parameters}


class _Player:
    """A player of scenarios whose first page is there, and whose second one is not yet."""

    scenario = b""

    def begin(self, scenario: bytes) -> int:
        self.scenario = scenario
        return 1

    def page(self, number: int) -> bytes | None:
        if number > 2:
            raise InvalidQueryError("there is no such simulation")
        return b"<!doctype html>" if number == 1 else None


PLAYER = _Player()


@contextmanager
def served(feed: Any, **settings: Any) -> Iterator[LivePageServer]:
    chosen = {name.replace("_", "."): value for name, value in settings.items()}
    loaded = Settings.load({"http.port": 0, **chosen})
    with LivePageServer(feed, _ask, PLAYER, loaded, SystemClock()) as server:
        yield server


@pytest.fixture(scope="module")
def server() -> Iterator[LivePageServer]:
    with served(_Feed()) as found:
        yield found


@attrs.frozen
class _Answer:
    status: int
    headers: dict[str, str]
    body: bytes


def _get(
    server: LivePageServer, path: str, *, posted: bytes | None = None, **headers: str
) -> _Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    connection.request("GET" if posted is None else "POST", path, posted, given)
    answer = connection.getresponse()
    found = _Answer(answer.status, dict(answer.headers), answer.read())
    connection.close()
    return found


@pytest.mark.parametrize("name", ["", *(f"page/{one}" for one in FILES)])
def test_each_file_is_served_under_a_policy_that_allows_nothing_else(
    server: LivePageServer, name: str
) -> None:
    answer = _get(server, f"/{name}")
    assert answer.status == 200
    kind = FILES[name.removeprefix("page/") or "index.html"]
    assert answer.headers["Content-Type"] == f"{kind}; charset=utf-8"
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_the_page_holds_no_script_style_or_address_that_its_policy_refuses() -> None:
    folder = files("streamlet.web.live") / "page"
    texts = {one.name: one.read_text() for one in folder.iterdir()}
    assert texts.keys() == FILES.keys()
    page = texts.pop("index.html")
    assert re.findall(r"\son\w+\s*=|\sstyle=|<style|<script(?![^>]*\ssrc=)", page) == []
    for name, text in texts.items():
        assert (
            re.findall(r"(?:inner|outer)HTML|insertAdjacent|document\.write|\beval\b", text) == []
        )
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(h", text) == [], name


def test_an_unknown_file_is_refused(server: LivePageServer) -> None:
    for path in ("/page/../server.py", "/page/%2e%2e%2fserver.py", "/page/reader.py"):
        assert _get(server, path).status == 400, path


def test_queries_go_to_an_instance(server: LivePageServer) -> None:
    found = msgspec.json.decode(_get(server, "/stores/counts/a%2Fb?limit=3").body)
    assert found == {"path": "/stores/counts/a%2Fb", "parameters": {"limit": "3"}}
    assert _get(server, "/stores/gone").status == 503


def test_a_scenario_is_played_for_this_site_only(server: LivePageServer) -> None:
    as_json, scenario = {"Content_Type": "application/json"}, b'{"name": "one"}' * 9_000
    begun = _get(server, "/simulations", posted=scenario, **as_json)
    assert (begun.status, begun.body, PLAYER.scenario) == (200, b'{"number":1}', scenario)
    page = _get(server, "/simulations/1")
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "Content-Security-Policy" not in page.headers  # it bears its own
    assert _get(server, "/simulations/2").status == 503
    for path in ("/simulations/3", "/simulations", "/simulations/1/1", "/simulations/%D9%A1"):
        assert _get(server, path).status == 400
    for path, kind in (("/simulations", "text/plain"), ("/stores/counts", "application/json")):
        assert _get(server, path, posted=b"{}", Content_Type=kind).status == 400
    assert _get(server, "/simulations", posted=b"{}", Host="evil.example", **as_json).status == 401


def _played(player: Simulations) -> bytes:
    waiting = threading.Event()
    while (page := player.page(1)) is None:
        waiting.wait(0.01)
    return page


@pytest.mark.parametrize("broken", [False, True])
def test_a_player_plays_one_scenario_at_a_time(tmp_path: Path, broken: bool) -> None:
    """By a command that writes a page, or says why it cannot."""
    program = tmp_path / "play.py"
    program.write_text(
        "import sys, time\n"
        "from pathlib import Path\n"
        f"while not Path({str(tmp_path / 'go')!r}).exists(): time.sleep(0.01)\n"
        f"if {broken}: sys.exit(f'{{sys.argv[1]}}: it has no tasks')\n"
        "Path(sys.argv[3]).write_bytes(Path(sys.argv[1]).read_bytes() * 2)\n"
    )
    with Simulations((sys.executable, "-S", "-E", str(program))) as player:
        assert player.begin(b"{}") == 1
        with pytest.raises(QueryRefusedError, match="wait for it"):
            player.begin(b"{}")
        assert player.page(1) is None
        (tmp_path / "go").touch()
        if broken:
            with pytest.raises(InvalidQueryError, match=r"^scenario\.json: it has no tasks$"):
                _played(player)
        else:
            assert _played(player) == b"{}{}"
        with pytest.raises(InvalidQueryError, match="play it again"):
            player.page(7)
        with pytest.raises(InvalidQueryError, match="bytes at most"):
            player.begin(b" " * (MOST_BYTES + 1))


def test_another_host_name_is_refused_without_a_token(server: LivePageServer) -> None:
    for path in ("/", "/page/page.js", "/live.json"):
        assert _get(server, path, Host="evil.example").status == 401
    assert _get(server, "/live.json", Host="localhost").status == 200


def test_with_a_token_a_browser_is_asked_for_it() -> None:
    with served(_Feed(), http_token=TOKEN) as server:
        refused = _get(server, "/")
        assert refused.status == 401
        assert refused.headers["WWW-Authenticate"].startswith("Basic ")
        assert _get(server, "/live.json").headers["WWW-Authenticate"] == "Bearer"
        for path in ("/", "/page/page.js", "/live.json"):
            assert _get(server, path).status == 401
            for given in (f"me:{TOKEN}", f":{TOKEN}"):
                basic = base64.b64encode(given.encode()).decode()
                assert _get(server, path, Authorization=f"Basic {basic}").status == 200
            assert _get(server, path, Authorization=f"Bearer {TOKEN}").status == 200
        for wrong in ("me:other", TOKEN, f"me:{TOKEN}:", ":"):
            basic = base64.b64encode(wrong.encode()).decode()
            assert _get(server, "/live.json", Authorization=f"Basic {basic}").status == 401
        for broken in ("Basic", "Basic %%%", "Basic \u00e4", "basic "):
            assert _get(server, "/live.json", Authorization=broken).status == 401


@attrs.define(eq=False)
class _Looks:
    """Looks of a made-up application, opened as often as a reader asks."""

    made: MadeUp
    fails: bool = False
    opened: int = 0
    reading: Callable[[], object] = lambda: None
    closed: threading.Event = attrs.field(factory=threading.Event)

    @contextmanager
    def open(self) -> Iterator[Any]:
        self.opened += 1
        self.closed.clear()
        yield self
        self.closed.set()

    @property
    def look(self) -> Any:
        return _Look()

    def read(self) -> Any:
        if self.fails:
            raise BrokerError("the broker is away")
        self.reading()
        self.made.later()
        return self.made.reading()


@attrs.frozen
class _Look:
    window: Any = attrs.field(factory=lambda: _Window())


@attrs.define
class _Window:
    stopped: Any = None


def _until(reader: LiveReader, wanted: Any) -> dict[str, Any]:
    """The first answer that is as wanted."""
    waiting = threading.Event()
    while True:
        found = reader.newest()
        answer = None if found is None else msgspec.json.decode(found)
        if answer is not None and wanted(answer):
            return answer  # type: ignore[no-any-return]
        waiting.wait(0.01)


def test_a_reader_reads_while_it_is_asked_and_then_no_more() -> None:
    looks, clock = _Looks(MadeUp.of(1)), ManualClock()
    with LiveReader(looks.open, clock, fresh_ms=10) as reader:
        assert looks.opened == 0
        first = _until(reader, lambda answer: answer["document"] is not None)
        later = _until(
            reader, lambda answer: answer["document"]["at_ms"] > first["document"]["at_ms"]
        )
        assert later["problem"] is None
        clock.advance(round(UNASKED_S * 1_000) + 1)
        assert looks.closed.wait(60)
        assert looks.opened == 1
        _until(reader, lambda answer: answer["document"] is not None)
        assert looks.opened == 2


def test_a_reader_that_fails_is_left_alone_when_no_page_asks() -> None:
    looks, clock = _Looks(MadeUp.of(1), fails=True), ManualClock()
    with LiveReader(looks.open, clock, fresh_ms=10) as reader:
        _until(reader, lambda answer: answer["problem"] is not None)
        clock.advance(round(UNASKED_S * 1_000) + 1)
        waiting = threading.Event()
        for _ in range(6_000):
            if not reader._asked.is_set():
                break
            waiting.wait(0.01)
        assert not reader._asked.is_set(), "it is read though no page is open"
        looks.fails = False
        assert _until(reader, lambda answer: answer["document"] is not None)["problem"] is None


def test_a_broker_that_is_away_is_told_beside_the_last_document() -> None:
    looks, clock = _Looks(MadeUp.of(1)), ManualClock()
    with LiveReader(looks.open, clock, fresh_ms=10) as reader:
        _until(reader, lambda answer: answer["document"] is not None)
        looks.fails = True
        clock.advance(5_000)
        away = _until(reader, lambda answer: answer["problem"] is not None)
        assert away["problem"] == "the broker is away"
        assert away["age_ms"] >= 0
        assert away["document"] is not None
        looks.fails = False
        _until(reader, lambda answer: answer["problem"] is None)


def test_what_a_page_shows_is_at_most_a_second_old_unless_a_reading_takes_half_of_that() -> None:
    """From the begin of a reading until the page has the next one, which may take longer."""
    for took_ms in range(0, FRESH_MS // 2 - PAGE_MS):
        for next_ms in (took_ms, FRESH_MS // 2 - PAGE_MS):
            assert period_ms(took_ms) + next_ms + PAGE_MS <= FRESH_MS
        assert period_ms(took_ms) > took_ms
    looks, clock, end = _Looks(MadeUp.of(1)), ManualClock(), threading.Event()
    readings = iter((lambda: clock.advance(300), end.wait))
    looks.reading = lambda: next(readings, end.wait)()
    with LiveReader(looks.open, clock) as reader:
        first = _until(reader, lambda answer: answer["document"] is not None)
        assert (first["age_ms"], first["next_ms"]) == (300, period_ms(300))
        clock.advance(100)
        later = _until(reader, lambda _: True)
        assert (later["age_ms"], later["next_ms"]) == (400, period_ms(300) - 100)
        end.set()
