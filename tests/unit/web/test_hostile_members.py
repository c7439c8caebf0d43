"""Addresses in the control topic that are made up, out of date, or those of other programs."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from streamlet.control.values import MemberProgress, StoreServer, TaskProgress
from streamlet.types import TaskId
from tests.unit.queries.served import Serving
from tests.unit.web.served import Group, answering, counted, get, group_of, key_path
from tests.unit.web.test_server import TASKS, TOKEN

pytest.importorskip("aiohttp")


@pytest.fixture(scope="module")
def made() -> Iterator[Serving]:
    found = counted()
    yield found
    found.driver.close()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time enough for members to answer on any machine."""
    for name in ("members.CONNECT_S", "members.MOST_S", "client._MARGIN_S"):
        monkeypatch.setattr(f"streamlet.web.{name}", 300.0)


def _claim(group: Group, server: StoreServer, *tasks: TaskId) -> None:
    """Have the control topic say that tasks are at an address, before all others."""
    said = tuple(TaskProgress(str(task), "active", "running") for task in tasks)
    report = MemberProgress(server.instance, server.number, "x", "id", 0, "RUNNING", 1, tasks=said)
    group.entries[server.key], group.reported[server.key] = server, report


FORGED = {"entries": [[[], {"key": "k1", "value": -7}]], "more": False, "position": {}}
ABSENT = {"error": "KeyNotFoundError", "message": "no such key"}
REFUSED = {"error": "UnauthorizedError", "message": "another token"}


#: Answers that show by themselves that they are no member's.
OTHERS = (
    (200, json.dumps(FORGED | {"position": {"in": {"0": -1}}})),
    (200, json.dumps(FORGED | {"staleness_ms": -1})),
    (200, "<html>"),
    (404, "<html>"),
    (404, json.dumps(ABSENT)),
    (401, json.dumps(REFUSED)),
    (302, ""),
)


@pytest.mark.parametrize(
    ("token", "status", "body"),
    [
        (TOKEN, 200, json.dumps(FORGED)),
        (TOKEN, 404, json.dumps(ABSENT)),
        *((None, *one) for one in OTHERS),
    ],
)
def test_an_answer_that_is_no_members_counts_as_none(
    made: Serving, token: str | None, status: int, body: str
) -> None:
    settings = {} if token is None else {"http_token": token}
    with answering(status, body.encode()) as (port, sent), group_of(made, 2, **settings) as group:
        group.serve(1, *TASKS)
        group.report(1, *TASKS)
        _claim(group, StoreServer("a", 0, "x", "127.0.0.1", port, "http"), *TASKS)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        right = get(group.servers[1], key_path("counts", "k1"), headers)
        found = get(group.servers[0], key_path("counts", "k1"), headers)
        assert sent
        assert (found.status, found.found["value"]) == (200, right.found["value"])
        assert not any(TOKEN in one for one in sent)


@pytest.mark.parametrize("path", [key_path("counts", "k1"), "/stores/counts"])
def test_members_that_are_silent_keep_no_answer_waiting(made: Serving, path: str) -> None:
    """Their connections are open until the test is over, and nobody reads what comes there."""
    with socket.create_server(("127.0.0.1", 0)) as silent, group_of(made, 3) as group:
        group.serve(2, *TASKS)
        group.report(2, *TASKS)
        for instance in "ab":
            port = silent.getsockname()[1]
            _claim(group, StoreServer(instance, 0, "x", "127.0.0.1", port, "http"), *TASKS)
        right = get(group.servers[2], path)
        assert get(group.servers[0], path).found == right.found


@pytest.mark.parametrize("path", [key_path("counts", "k1"), "/stores/counts"])
def test_the_age_of_a_members_answer_is_told(made: Serving, path: str) -> None:
    body = json.dumps(FORGED | {"entries": [], "staleness_ms": 700}).encode()
    with answering(200, body) as (port, sent), group_of(made, 1) as group:
        _claim(group, StoreServer("a", 0, "x", "127.0.0.1", port, "http"), *TASKS)
        found = get(group.servers[0], path, max_staleness=1).found
        assert found["staleness_ms"] == 700, found
        assert "max_staleness=1.000" in sent[0]


@pytest.mark.parametrize(
    ("instance", "host", "port", "scheme"),
    [
        ("a", "127.0.0.1/x?", 80, "http"),
        ("a", "me@127.0.0.1", 80, "http"),
        ("a", "ü\n", 80, "http"),
        ("a", "127.0.0.1", 70_000, "http"),
        ("a", "127.0.0.1", -1, "http"),
        ("a", "127.0.0.1", 80, "file"),
        ("a\r\nHost: x", "127.0.0.1", None, "http"),
        ("a", "127.0.0.1", None, "https"),
    ],
)
def test_addresses_that_cannot_be_hide_no_owner(
    made: Serving, instance: str, host: str, port: int | None, scheme: str
) -> None:
    with group_of(made, 2) as group:
        group.serve(1, *TASKS)
        group.report(1, *TASKS)
        there = group.servers[1].port if port is None else port
        _claim(group, StoreServer(instance, 0, "x", host, there, scheme), *TASKS)
        assert get(group.servers[0], key_path("counts", "k1")).status == 200
        assert get(group.servers[0], "/stores").status == 200


def test_an_answer_that_does_not_end_is_cut_off(
    made: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamlet.web.members.MOST_BYTES", 10_000)
    with answering(200, b" " * 200_000) as (port, sent), group_of(made, 1) as group:
        _claim(group, StoreServer("a", 0, "x", "127.0.0.1", port, "http"), *TASKS)
        found = get(group.servers[0], key_path("counts", "k1"), timeout=0)
        assert (found.status, found.found["error"]) == (503, "StateStoreMigratedError")
        assert "more than" in found.found["message"]
        assert sent


def test_a_proof_is_of_one_request_for_a_short_time(made: Serving) -> None:
    with group_of(made, 2, http_token=TOKEN) as group, answering(200, b"{}") as (port, sent):
        group.serve(1, *TASKS)
        victim = group.servers[1].entry
        _claim(group, StoreServer(victim.instance, 0, "x", "127.0.0.1", port, "http"), *TASKS)
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        get(group.servers[0], key_path("counts", "k1"), bearer, timeout=0)
        path, _, lines = sent[0].partition("\n")
        headers = dict(line.split(": ", 1) for line in lines.splitlines() if line)
        assert get(group.servers[1], path, headers).status == 200  # it is the same question
        other = f"{path}&newest=true"
        for changed in (
            headers | {"Authorization": headers["Authorization"][:-1] + "x"},
            headers | {"Streamlet-For-Member": "p0/0"},
            headers | {"Authorization": "Streamlet 1 " + headers["Authorization"][-64:]},
            headers | {"Authorization": "Streamlet"},
        ):
            assert get(group.servers[1], path, changed).status == 401
        assert get(group.servers[1], other, headers).status == 401


def test_only_streamlets_own_servers_have_a_url() -> None:
    assert StoreServer("a", 0, "x", "::1", 8080, "http").url == "http://[::1]:8080"
    assert StoreServer("a", 0, "x", "h-1", 8080).url is None
