"""Queries over HTTP: pages, errors and positions, and instances that ask the owner of a key."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

import streamlet as sl
from streamlet.config import Settings
from streamlet.errors import ConfigError
from streamlet.types import TaskId
from streamlet.web.keys import packed
from streamlet.web.pages import Cursor
from streamlet.web.router import MOST_AT_ONCE
from tests.unit.queries.served import Serving, filled, serving
from tests.unit.queries.test_local_stores import KEYS
from tests.unit.web.served import Reply, get, group_of, key_path, server_of

pytest.importorskip("aiohttp")

TASKS = tuple(TaskId(0, partition) for partition in range(3))


@pytest.fixture(scope="module")
def made() -> Iterator[Serving]:
    with filled() as found:
        yield found


@pytest.fixture(scope="module")
def server(made: Serving) -> Iterator[Any]:
    with server_of(made.served) as found:
        yield found


def _pages(server: Any, path: str, **parameters: Any) -> list[dict[str, Any]]:
    """The entries of all pages."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        reply = get(server, path, **parameters, **cursor)
        assert reply.status == 200, reply
        found += reply.found["entries"]
        if reply.found["cursor"] is None:
            return found
        cursor = {"cursor": reply.found["cursor"]}


def _entries(store: str, face: Any, how: str, *given: Any) -> list[Any]:
    """The entries as the store in the process gives them, as JSON has them."""
    found = []
    for key, value in getattr(face, how)(*given):
        if isinstance(key, sl.Windowed):
            found.append({"key": key.key, "start": key.start, "end": key.end, "value": value})
        else:
            found.append({"key": key, "value": value})
    return found


@pytest.mark.parametrize(
    ("store", "there", "back"),
    [
        ("counts", "range", "reverse_range"),
        ("plain", "range", "reverse_range"),
        ("latest", "range", "reverse_range"),
        ("windows", "fetch_all", "backward_fetch_all"),
        ("windowed", "fetch_all", "backward_fetch_all"),
        ("sessions", "all", "backward_all"),
        ("key-sessions", "all", "backward_all"),
    ],
)
def test_pages_of_all_keys_are_the_whole_store_in_its_order(
    made: Serving, server: Any, store: str, there: str, back: str
) -> None:
    for how, reverse in ((there, "false"), (back, "true")):
        whole = _entries(store, made.store(store, timeout_ms=60_000), how)
        few = max(3, len(whole) // 9)
        paged = _pages(server, f"/stores/{store}", limit=few, reverse=reverse)
        for entry in paged:
            entry.pop("timestamp", None)
        assert paged == whole
        assert len(whole) > 3


def test_ranges_and_prefixes_are_those_of_the_store(made: Serving, server: Any) -> None:
    plain = made.store("plain", timeout_ms=60_000)
    for parameters, whole in (
        ({"from": "k2", "to": "k31"}, [*plain.range("k2", "k31")]),
        ({"from": "k2", "to": "k31", "reverse": "true"}, [*plain.reverse_range("k2", "k31")]),
        ({"prefix": "k1"}, [*plain.prefix_scan("k1")]),
        ({"prefix": "k1", "reverse": "true"}, [*plain.prefix_scan("k1", reverse=True)]),
    ):
        paged = _pages(server, "/stores/plain", limit=3, **parameters)
        assert [(entry["key"], entry["value"]) for entry in paged] == whole


@pytest.mark.parametrize(
    ("store", "there", "back"),
    [
        ("windows", "fetch", "backward_fetch"),
        ("windowed", "fetch", "backward_fetch"),
        ("sessions", "find_sessions", "backward_find_sessions"),
    ],
)
def test_ranges_of_keys_and_times_are_those_of_the_store(
    made: Serving, server: Any, store: str, there: str, back: str
) -> None:
    face = made.store(store, timeout_ms=60_000)
    times = sorted(window.start for window, _ in face.range())
    first, last = times[len(times) // 4], times[-len(times) // 4]
    for keys, how in ((("k2", "k31"), there), ((None, "k2"), back), (("k3", None), there)):
        whole = _entries(store, face, how, *keys, first, last)
        ends = dict(zip(("from-key", "to-key"), keys, strict=True)) | {"from": first, "to": last}
        given = {name: end for name, end in ends.items() if end is not None}
        paged = _pages(
            server, f"/stores/{store}", limit=3, reverse=str(how == back).lower(), **given
        )
        for entry in paged:
            entry.pop("timestamp")
        assert paged == whole
        assert len(whole) > 3


def test_a_key_has_its_value_its_windows_its_sessions_and_its_versions(
    made: Serving, server: Any
) -> None:
    for key in KEYS[:5]:
        value = get(server, key_path("timed", key)).found
        timed = made.store("timed", sl.TimestampedStore, timeout_ms=60_000).get(key)
        assert (value["value"], value["timestamp"]) == timed
        windows = _pages(server, key_path("windows", key, "windows"), limit=2)
        found = made.store("windows", timeout_ms=60_000).fetch(key, None, None)
        assert [(one["start"], one["value"]) for one in windows] == [*found]
        sessions = _pages(server, key_path("sessions", key, "sessions"), limit=2, reverse="true")
        whole = made.store("sessions", timeout_ms=60_000)
        assert [one.pop("timestamp") for one in sessions] == [one["end"] for one in sessions]
        assert sessions == _entries("sessions", whole, "backward_fetch", key)
        versions = _pages(server, key_path("versions", key, "versions"), limit=2)
        old = versions[0]
        assert [one["timestamp"] for one in versions] == sorted(o["timestamp"] for o in versions)
        back = _pages(server, key_path("versions", key, "versions"), limit=2, reverse="true")
        assert back == versions[::-1]
        as_of = get(server, key_path("versions", key), as_of=old["timestamp"]).found
        assert (as_of["value"], as_of["valid_to"]) == (old["value"], old["valid_to"])


def test_only_a_key_that_is_truly_absent_is_not_found(server: Any) -> None:
    reply = get(server, key_path("counts", "nobody"))
    assert (reply.status, reply.found["error"]) == (404, "KeyNotFoundError")
    assert reply.found["position"]["in"]
    there = get(server, key_path("counts", "k1"), newest="true", timeout=0)
    assert (there.status, there.found["error"]) == (503, "NotUpToBoundError")  # no loop runs here


#: A cursor whose number has more than 64 bits.
FAR = packed(b'[[9223372036854775808,"6b",1],1]')


@pytest.mark.parametrize(
    ("path", "parameters", "status", "error"),
    [
        ("/stores/nowhere/k1", {}, 400, "UnknownStateStoreError"),
        ("/elsewhere", {}, 400, "InvalidQueryError"),
        ("/stores/counts", {"limit": 1_001}, 400, "InvalidQueryError"),
        ("/stores/counts", {"limit": "x"}, 400, "InvalidQueryError"),
        ("/stores/counts", {"cursor": "no"}, 400, "InvalidQueryError"),
        ("/stores/counts", {"cursor": "W1sxXSwxXQ"}, 400, "InvalidQueryError"),
        ("/stores/counts", {"prefix": "a", "from": "a"}, 400, "InvalidQueryError"),
        ("/stores/counts", {"strange": 1}, 400, "InvalidQueryError"),
        ("/stores/counts/k1", {"partition": 9}, 400, "InvalidStateStorePartitionError"),
        ("/stores/counts/k1", {"at_least": "[1]"}, 400, "InvalidQueryError"),
        ("/stores/counts/1", {"key-format": "json"}, 400, "InvalidQueryError"),
        ("/stores/counts/k1", {"timeout": "nan"}, 400, "InvalidQueryError"),
        ("/stores/windows/k1", {}, 400, "InvalidQueryError"),
        ("/stores/counts/%ff", {}, 400, "InvalidQueryError"),
        ("/stores/counts?from=%ff", {}, 400, "InvalidQueryError"),
        ("/stores/counts?limit=1&limit=2", {}, 400, "InvalidQueryError"),
        ("/stores/counts/null", {"key-format": "json"}, 400, "InvalidQueryError"),
        ("/stores/counts/k1", {"as_of": 5}, 400, "InvalidQueryError"),
        ("/stores/counts/k1", {"prefix": "k"}, 400, "InvalidQueryError"),
        ("/stores/counts", {"as_of": 5}, 400, "InvalidQueryError"),
        ("/stores/counts", {"to-key": "k"}, 400, "InvalidQueryError"),
        ("/stores/windows", {"from-key": "1", "key-format": "json"}, 400, "InvalidQueryError"),
        ("/stores/windows", {"prefix": "k"}, 400, "InvalidQueryError"),
        ("/stores/windows/k1/windows", {"prefix": "k"}, 400, "InvalidQueryError"),
        ("/stores/sessions", {"prefix": "k"}, 400, "InvalidQueryError"),
        ("/stores/windows", {"cursor": FAR}, 400, "InvalidQueryError"),
        ("/stores/counts/", {}, 404, "KeyNotFoundError"),
        ("/stores/counts/..", {}, 404, "KeyNotFoundError"),
        ("/stores/counts/%2F", {}, 404, "KeyNotFoundError"),
        ("/stores/versions", {}, 400, "InvalidQueryError"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(
    server: Any, path: str, parameters: dict[str, Any], status: int, error: str
) -> None:
    reply = get(server, path, **parameters)
    assert (reply.status, reply.found["error"]) == (status, error)


def test_times_as_far_away_as_there_are_numbers_are_open_ends(server: Any) -> None:
    ever = {"from": -(1 << 63), "to": (1 << 63) - 1}
    for listed in ("windows", "windowed", "sessions", "key-sessions"):
        what = "sessions" if "sessions" in listed else "windows"
        path, of_key = f"/stores/{listed}", key_path(listed, "k1", what)
        assert get(server, path, **ever).found == get(server, path).found
        if what == "windows":  # of a key's sessions the one is an end, the other a start
            assert get(server, of_key, **ever).found == get(server, of_key).found
        behind = get(server, path, cursor=Cursor(((1 << 63) - 1, "6b31", 1)).text)
        assert (behind.status, behind.found["entries"]) == (200, [])
    assert get(server, key_path("versions", "k1"), as_of=(1 << 63) - 1).status == 200


def test_more_tasks_than_reads_may_wait_are_asked_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streamlet.web.router.MOST_READS", MOST_AT_ONCE)
    app = sl.App("wide")
    app.stream("in", key=str, value=int).group_by_key().count(store="counts")
    made = serving(app, {"in": 2 * MOST_AT_ONCE})
    for key in KEYS:
        made.driver.pipe_input("in", key, 1)
    made.serve()
    with server_of(made.served) as server:
        paged = _pages(server, "/stores/counts", limit=7)
        assert [one["key"] for one in paged] == sorted(KEYS)
        far = {"other-topic": {str(number): 1 << 40 for number in range(900)}}
        header = {"Streamlet-At-Least": sl_json(far)}
        assert get(server, key_path("counts", KEYS[0]), header).status == 200
    made.driver.close()


def test_an_answer_is_at_least_as_far_as_asked_for(server: Any) -> None:
    position = get(server, key_path("counts", "k1")).found["position"]
    header = {"Streamlet-At-Least": sl_json(position)}
    assert get(server, key_path("counts", "k1"), header).found["position"] == position
    ((topic, (at,)),) = ((topic, [*offsets]) for topic, offsets in position.items())
    later = {topic: {at: position[topic][at] + 1}}
    reply = get(server, key_path("counts", "k1"), at_least=sl_json(later), timeout=0)
    assert (reply.status, reply.found["error"]) == (503, "NotUpToBoundError")
    assert reply.headers["Retry-After"] == "1"


def sl_json(found: Any) -> str:
    return sl.serdes.json().encode(found).decode()


def test_the_openapi_document_names_what_is_served(server: Any) -> None:
    found = get(server, "/openapi.json").found
    assert "/stores/{name}/{key}/versions" in found["paths"]
    stores = get(server, "/stores").found["stores"]
    assert {(one["name"], one["kind"]) for one in stores} >= {
        ("counts", "key-value"),
        ("windows", "window"),
        ("sessions", "session"),
        ("versions", "versioned"),
    }


def test_any_instance_answers_for_any_key_and_all_of_them(made: Serving) -> None:
    with group_of(made, 2) as group:
        group.serve(0, TASKS[0])
        group.serve(1, *TASKS[1:])
        group.report(0, TASKS[0])
        group.report(1, *TASKS[1:])
        counts = dict(made.store("counts", timeout_ms=60_000).all())
        for server in group.servers:
            for key in counts:
                assert get(server, key_path("counts", key)).found["value"] == counts[key]
            assert get(server, key_path("counts", "nobody")).status == 404
            whole = _pages(server, "/stores/counts", limit=9)
            assert {one["key"]: one["value"] for one in whole} == counts


def test_a_task_is_found_where_it_is_not_reported_yet(made: Serving) -> None:
    """Reports say that the first member has all; the second has taken one over."""
    with group_of(made, 3) as group:
        group.serve(0, *TASKS[:2])
        group.serve(1, TASKS[2])
        group.report(0, *TASKS)
        for key, count in made.store("counts", timeout_ms=60_000).all():
            assert get(group.servers[2], key_path("counts", key)).found["value"] == count


def test_nothing_is_found_absent_while_its_task_is_nowhere(made: Serving) -> None:
    with group_of(made, 2) as group:
        group.serve(0, *TASKS[:2])
        group.report(0, *TASKS)
        replies = [
            get(server, key_path("counts", key), timeout=0)
            for server in group.servers
            for key in (*KEYS, "nobody", "none", "nothing")
        ]
        assert {reply.status for reply in replies} >= {200, 503}
        lists = [get(server, "/stores/counts", timeout=0) for server in group.servers]
        assert {(one.status, one.found["error"]) for one in lists} == {
            (503, "StateStoreMigratedError")
        }
        counts = dict(made.store("counts", timeout_ms=60_000).all())
        for reply, key in zip(replies, (*KEYS, *"xyz") * 2, strict=True):
            assert reply.status != 404 or key not in counts


def test_an_answer_waits_for_the_start_of_the_worker(
    made: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    with group_of(made, 1) as group:
        group.serve(0, *TASKS)
        begun, group.members[0].worker = group.members[0].worker, None
        reply = get(group.servers[0], key_path("counts", "k1"), timeout=0)
        assert (reply.status, reply.found["error"]) == (503, "StreamsNotStartedError")
        pause = asyncio.sleep

        async def begin(delay_s: float) -> None:
            group.members[0].worker = begun
            await pause(delay_s)

        monkeypatch.setattr(asyncio, "sleep", begin)
        assert get(group.servers[0], key_path("counts", "k1"), timeout=9).status == 200


def test_a_member_that_is_asked_by_another_asks_no_third(made: Serving) -> None:
    with group_of(made, 2) as group:
        group.serve(1, *TASKS)
        group.report(1, *TASKS)
        first = group.servers[0].entry
        asked = {"Streamlet-Of-Partition": "0"}
        here = asked | {"Streamlet-For-Member": f"{first.instance}/{first.number}"}
        reply = get(group.servers[0], key_path("counts", "k1"), here)
        assert (reply.status, reply.found["error"]) == (503, "StateStoreMigratedError")
        strange = asked | {"Streamlet-For-Member": "another/0"}
        assert (
            "another member"
            in get(group.servers[1], key_path("counts", "k1"), strange).found["message"]
        )


TOKEN = "a-token-of-20-letters"


def _asked(server: Any, token: str | None) -> Reply:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return get(server, key_path("counts", "k1"), headers)


def test_with_a_token_nobody_else_is_answered_and_instances_know_it(made: Serving) -> None:
    with group_of(made, 2, http_token=TOKEN) as group:
        group.serve(1, *TASKS)
        group.report(1, *TASKS)
        for server in group.servers:
            assert _asked(server, TOKEN).status == 200
            for wrong in (None, "", TOKEN + "x", "ü" * 20):
                reply = _asked(server, None if wrong is None else wrong)
                assert (reply.status, reply.found["error"]) == (401, "UnauthorizedError")


def test_a_page_that_rebinds_its_name_to_this_machine_is_refused(server: Any) -> None:
    assert get(server, key_path("counts", "k1"), {"Host": "evil.example:80"}).status == 401
    assert get(server, key_path("counts", "k1"), {"Host": "localhost:80"}).status == 200


def test_other_machines_are_let_in_with_a_token_or_certificates_only() -> None:
    everywhere = {"http.port": 0, "http.host": "0.0.0.0"}
    with pytest.raises(ConfigError, match=r"http\.token, or http\.ssl\.ca\.location"):
        Settings.load(everywhere)
    Settings.load(everywhere | {"http.token": TOKEN})
    with pytest.raises(ConfigError) as wrong:
        Settings.load({"http.token": "short secret"})
    assert "short secret" not in str(wrong.value)
    assert TOKEN not in repr(Settings.load({"http.token": TOKEN}))


def test_idle_connections_make_room(made: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamlet.web.http_server.MOST_CONNECTIONS", 4)
    with server_of(made.served) as server:
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(12)]
        for one in idle[::2]:
            one.sendall(b"GET /stores HT")
        assert get(server, key_path("counts", "k1")).status == 200
        idle[0].settimeout(300)
        assert idle[0].recv(1) == b""  # it was closed to make room
        for one in idle:
            one.close()
