"""``streamlet.connect``: stores of another process, with the methods that ``App.store`` gives."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import methodcaller
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import ConfigError, TopologyError
from streamlet.queries.requests import Query
from streamlet.state.query_errors import (
    InvalidQueryError,
    InvalidStateStoreError,
    StateStoreMigratedError,
    UnauthorizedError,
    UnknownStateStoreError,
)
from streamlet.types import TopicPartition
from streamlet.web.client import StoreClient
from tests.unit.queries.served import Serving, filled, serving
from tests.unit.queries.test_local_stores import KEYS
from tests.unit.web.served import answering, get, server_of
from tests.unit.web.test_server import TOKEN

pytest.importorskip("aiohttp")


@pytest.fixture(scope="module")
def made() -> Iterator[Serving]:
    with filled() as found:
        yield found


@pytest.fixture(scope="module")
def client(made: Serving) -> Iterator[Any]:
    with server_of(made.served) as server:
        yield sl.connect(server.url)


READS: dict[tuple[str, Any], list[tuple[Any, ...]]] = {
    ("counts", sl.KeyValueStore): [
        *(("get", key) for key in (*KEYS[:3], "nobody")),
        ("range", "k2", "k31"),
        ("reverse_range", None, "k31"),
        ("all",),
        ("reverse_all",),
        ("prefix_scan", "k1"),
        ("timestamp", "k1"),
        ("approximate_num_entries",),
    ],
    ("counts", sl.TimestampedStore): [("get", "k1"), ("range", "k2", "k31"), ("reverse_all",)],
    ("timed", sl.TimestampedStore): [("get", "k1"), ("all",)],
    ("windowed", sl.WindowStore): [
        ("fetch", "k1", None, None),
        ("backward_fetch", "k1", None, 1_577_837_100_000),
        ("fetch", "k1", 1_577_836_900_000),
        ("fetch", "k1", "k3", None, 1_577_837_100_000),
        ("backward_fetch", None, "k2", 1_577_837_000_000, None),
        ("fetch_all", 1_577_837_000_000, None),
        ("backward_all",),
    ],
    ("sessions", sl.SessionStore): [
        ("fetch", "k1"),
        ("backward_fetch", "k1"),
        ("find_sessions", "k1", None, 1_577_837_060_000),
        ("find_sessions", 1_577_837_030_000, None),
        ("find_sessions", "k2", None, None, 1_577_837_060_000),
        ("backward_find_sessions", None, None, 1_577_837_030_000, 1_577_837_060_000),
        ("fetch", "k1", "k2"),
        ("backward_all",),
    ],
    ("versions", sl.VersionedKeyValueStore): [
        ("get", "k1"),
        ("get", "nobody"),
        ("get", "k1", 1_577_836_990_000),
        ("get", "k1", None, None),
    ],
}


@pytest.mark.parametrize(("store", "kind"), READS)
def test_each_read_gives_what_it_gives_in_the_process(
    made: Serving, client: Any, store: str, kind: Any
) -> None:
    here = made.store(store, kind, timeout_ms=60_000)
    there = client.store(store, kind[str, int])
    for how, *given in READS[store, kind]:
        found, whole = (methodcaller(how, *given)(one) for one in (there, here))
        if isinstance(whole, Iterator):
            found, whole = [*found], [*whole]
        assert found == whole, (how, given)
        assert type(found) is type(whole)


def test_single_windows_and_sessions_are_found(made: Serving, client: Any) -> None:
    windows = client.store("windowed", sl.WindowStore[str, int])
    window, value = next(windows.all())
    assert windows.fetch(window.key, window.start) == value == windows.get(window)
    sessions = client.store("sessions", sl.SessionStore[str, int])
    session, value = next(sessions.all())
    assert sessions.fetch_session(*session) == value == sessions.get(session)
    for of in (sessions, made.store("sessions", sl.SessionStore, timeout_ms=60_000)):
        assert of.timestamp(session) == session.end
        assert of.timestamp(session._replace(end=session.end + 1)) is None


HEADS = [("id", b"7"), ("</script>\u202e", b"\xff\0"), ("none", None), ("traceparent", b"t")]
#: Those that rows keep, of a window, of a sliding window and of a session of the one record.
WHOLE, HOUR = tuple(HEADS[:3]), sl.Windowed("a", 0, 3_600_000)
SECOND, VISIT = sl.Windowed("a", 0, 1_000), sl.Windowed("a", 1_000, 1_000)


@pytest.fixture(scope="module")
def headed() -> Iterator[Serving]:
    """Stores of each kind that keep headers: of a record with some, and of one without."""
    app = sl.App("headed")
    records = app.stream("in", key=str, value=int)
    stream = records.group_by_key()
    stream.count(store=sl.Materialized("counts", headers=True))
    hours = stream.windowed_by(sl.tumbling("1h"))
    hours.count(store=sl.Materialized("hours", headers=True))
    slid = stream.windowed_by(sl.sliding("1s"))
    slid.count(store=sl.Materialized("slid", headers=True))
    visits = stream.windowed_by(sl.session("1m"))
    visits.count(store=sl.Materialized("visits", headers=True))
    records.to_table(store=sl.Materialized("past", history="1h", headers=True))
    stream.count(store="plain")
    app.global_table("names", key=str, value=str, store="names")
    made = serving(app, {"in": 3})
    with made.driver:
        made.driver.pipe_input("in", "a", 1, 1_000, headers=HEADS)
        made.driver.pipe_input("in", "b", 1, 1_000)
        made.serve()
        yield made


def test_the_headers_of_rows_are_in_all_answers(headed: Serving) -> None:
    """In the process, over HTTP and by the client, of each kind of store; names are only text."""
    with server_of(headed.served) as server:
        shown = [["id", "Nw=="], [HEADS[1][0], "/wA="], ["none", None]]
        assert get(server, "/stores/counts/a").found["headers"] == shown
        for path in ("counts", "hours", "slid", "visits"):
            entries = get(server, f"/stores/{path}").found["entries"]
            assert [one["headers"] for one in entries] == [shown, []]
            assert [one["timestamp"] for one in entries] == [1_000, 1_000]
        for path in ("hours/a/windows", "slid/a/windows", "visits/a/sessions", "past/a/versions"):
            (one,) = get(server, f"/stores/{path}").found["entries"]
            assert (one["headers"], one["timestamp"]) == (shown, 1_000)
        for at in ({}, {"as_of": 1_000}):
            assert get(server, "/stores/past/a", **at).found["headers"] == shown
        assert "headers" not in get(server, "/stores/plain/a").found
        client = sl.connect(server.url)
        for of in (client.store, partial(headed.store, timeout_ms=60_000)):
            counts = of("counts", sl.KeyValueStore[str, int])
            assert [counts.headers(key) for key in "abx"] == [WHOLE, (), ()]
            hours = of("hours", sl.WindowStore[str, int])
            assert (hours.headers(HOUR), hours.timestamp(HOUR)) == (WHOLE, 1_000)
            assert hours.headers(sl.Windowed("a", 3_600_000, 7_200_000)) == ()
            slid = of("slid", sl.WindowStore[str, int])
            assert (slid.headers(SECOND), slid.timestamp(SECOND)) == (WHOLE, 1_000)
            visits = of("visits", sl.SessionStore[str, int])
            assert (visits.headers(VISIT), visits.timestamp(VISIT)) == (WHOLE, 1_000)
            assert visits.headers(sl.Windowed("a", 0, 1_000)) == ()
            past = of("past", sl.VersionedKeyValueStore[str, int])
            assert [past.headers("a", at) for at in (None, 1_000, 999)] == [WHOLE, WHOLE, ()]
            with pytest.raises(InvalidStateStoreError, match="headers=True"):
                of("plain", sl.KeyValueStore[str, int]).headers("a")
            with pytest.raises(InvalidStateStoreError, match="is of a global table"):
                of("names").headers("a")


def test_queries_of_rows_with_headers_give_records(headed: Serving) -> None:
    def answered(store: str, query: Query[Any]) -> list[Any]:
        reads = headed.local(store, query.kind, timeout_ms=60_000)
        if query.partition_key is None:
            return [one for number in range(3) for one in reads.ask(number, query.read).result]
        found = reads.ask(reads.places(query.partition_key).partitions[0], query.read).result
        return [found] if isinstance(found, sl.Record | None) else [*found]

    record, hour = sl.Record("a", 1, 1_000, WHOLE), sl.Record(HOUR, 1, 1_000, WHOLE)
    assert answered("counts", sl.TimestampedKeyWithHeadersQuery("a")) == [record]
    assert answered("counts", sl.TimestampedKeyWithHeadersQuery("x")) == [None]
    for down in (False, True):
        every = sl.TimestampedRangeWithHeadersQuery(None, "a", descending=down)
        assert answered("counts", every) == [record]
    assert answered("hours", sl.TimestampedWindowKeyWithHeadersQuery("a")) == [hour]
    assert hour in answered("hours", sl.TimestampedWindowRangeWithHeadersQuery())
    of_visits = sl.TimestampedSessionKeyWithHeadersQuery("a")
    assert answered("visits", of_visits) == [sl.Record(VISIT, 1, 1_000, WHOLE)]
    of_times = [sl.VersionedKeyWithHeadersQuery("a", at) for at in (None, 999)]
    assert [answered("past", one) for one in of_times] == [[record], [None]]
    with pytest.raises(InvalidStateStoreError, match="headers=True"):
        answered("plain", sl.TimestampedRangeWithHeadersQuery())


def test_it_says_what_it_cannot_do(client: Any) -> None:
    counts = client.store("counts", sl.KeyValueStore[str, int])
    with pytest.raises(TopologyError, match="a query reads"):
        counts.put("k1", 1)
    with pytest.raises(TypeError, match="an answer is no"):
        client.store("counts", sl.KeyValueStore[str, str]).get("k1")
    with pytest.raises(TypeError, match="None"):
        counts.get(None)
    with pytest.raises(UnknownStateStoreError):
        client.store("nowhere").get("k1")
    with pytest.raises(TypeError, match="a key or two"):
        client.store("windowed", sl.WindowStore).fetch("a", "b", None, None, None)
    with pytest.raises(TypeError, match="no queries over HTTP"):
        client.store("counts", int)
    with pytest.raises(InvalidQueryError):
        sl.connect("localhost:8080")
    assert {one["name"] for one in client.stores()["stores"]} >= {"counts", "sessions"}


def test_it_brings_its_token_and_passes_its_position_on(made: Serving) -> None:
    with server_of(made.served, http_token=TOKEN) as server:
        with pytest.raises(UnauthorizedError):
            sl.connect(server.url).store("counts").get("k1")
        client = sl.connect(server.url, token=TOKEN)
        assert TOKEN not in repr(client)
        counts = client.store("counts", sl.KeyValueStore[str, int], timeout=0)
        assert counts.get("k1")
        assert counts.position.offsets
    with pytest.raises(StateStoreMigratedError, match="does not answer: Connection refused; ask"):
        counts.get("k1")


def test_the_position_of_an_absent_key_is_passed_on(made: Serving) -> None:
    with server_of(made.served) as server:
        counts = sl.connect(server.url).store("counts")
        assert counts.get("nobody") is None
        assert counts.position.offsets
    absent = b'"error": "KeyNotFoundError", "message": "", "position": {"in": {"0": 7}}'
    with answering(404, b'{%s, "staleness_ms": 70}' % absent) as (port, _):
        counts = sl.connect(f"http://127.0.0.1:{port}").store("counts")
        assert counts.get("k1") is None
        assert counts.position == sl.Position({TopicPartition("in", 0): 7})
        assert counts.staleness_ms == 70


def test_what_is_no_address_and_no_token_is_refused_by_name() -> None:
    url: Any
    for url in ("localhost:8080", None, 8080):
        with pytest.raises(InvalidQueryError, match="expected http://host:port, not"):
            sl.connect(url)
    token: Any
    for token in (5, "", b"secret"):
        with pytest.raises(InvalidQueryError, match="token: expected visible ASCII"):
            sl.connect("http://localhost", token=token)
    with pytest.raises(ConfigError, match="give certificate= too"):
        sl.connect("http://localhost", key="key.pem")
    with pytest.raises(ConfigError, match=r"connect\(ca=\) = .*: embedded null"):
        sl.connect("http://localhost", ca="a\0b")


def test_a_time_that_no_server_takes_is_not_waited_for(client: Any) -> None:
    for wait in ("inf", "1e300", "nan", "9"):
        assert client.get("/stores", {"timeout": wait})["stores"]
    with pytest.raises(InvalidQueryError):
        client.get("/stores", {"timeout": "long"})


def test_a_token_is_part_of_no_error(made: Serving) -> None:
    with server_of(made.served, http_token=TOKEN) as server:
        client = sl.connect(server.url, token=f" {TOKEN}\n")  # as a file has it
        assert client.store("counts", sl.KeyValueStore[str, int]).get("k1")
    with pytest.raises(InvalidQueryError) as wrong:
        sl.connect("http://localhost", token=f"{TOKEN}\nX: y")
    assert TOKEN not in str(wrong.value)


def test_a_server_that_is_not_trusted_gets_a_proof_and_has_to_give_one(made: Serving) -> None:
    with server_of(made.served, http_token=TOKEN) as server:
        counts = StoreClient(server.url, TOKEN, trusted=False).store("counts")
        assert counts.get("k1") == counts.get("k1")
        assert counts.get("nobody") is None
    with answering(200, b'{"key": "k1", "value": -7, "position": {}}') as (port, sent):
        counts = StoreClient(f"http://127.0.0.1:{port}", TOKEN, trusted=False).store("counts")
        with pytest.raises(StateStoreMigratedError, match="has another http"):
            counts.get("k1")
        assert sent
        assert TOKEN not in sent[0]


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"<html>"), (200, b"[]"), (200, b"\xff"), (502, b"<html>")]
)
def test_an_answer_of_another_program_is_an_error_of_ours(status: int, body: bytes) -> None:
    with answering(status, body) as (port, _):
        client = sl.connect(f"http://127.0.0.1:{port}")
        for ask in (client.stores, lambda: client.store("counts").get("k1")):
            with pytest.raises(StateStoreMigratedError, match="none of streamlet's"):
                ask()


def test_positions_of_many_partitions_go_along(made: Serving, client: Any) -> None:
    far = {TopicPartition("elsewhere", number): 1 << 40 for number in range(1_000)}
    counts = client.store("counts", sl.KeyValueStore[str, int], at_least=sl.Position(far))
    assert counts.get("k1")
