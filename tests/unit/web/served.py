"""Servers of queries over the tasks of a ``TopologyTestDriver``, and a client of them."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, urlencode

import attrs

import streamlet as sl
from streamlet.clock import SystemClock
from streamlet.config import Settings
from streamlet.control.values import MemberKey, MemberProgress, StoreServer, TaskProgress
from streamlet.control.view import ControlView
from streamlet.tasks.served_tasks import ServedTasks, ServingWorker
from streamlet.types import TaskId
from streamlet.web.server import QueryServer
from tests.unit.queries.served import Serving, serving


@attrs.frozen
class Reply:
    """An answer of a server."""

    status: int
    found: Any
    headers: Mapping[str, str]


def get(
    server: QueryServer, path: str, headers: Mapping[str, str] | None = None, **parameters: Any
) -> Reply:
    """Ask a server on this machine."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    query = f"?{urlencode(parameters)}" if parameters else ""
    connection.request("GET", f"{path}{query}", headers=dict(headers or {}))
    answer = connection.getresponse()
    reply = Reply(answer.status, json.loads(answer.read()), dict(answer.headers))
    connection.close()
    return reply


def key_path(store: str, key: str, listed: str = "") -> str:
    """The address of a key."""
    return f"/stores/{store}/{quote(key, safe='')}{listed and f'/{listed}'}"


def counted() -> Serving:
    """A driver of three tasks with the counts of a few keys."""
    app = sl.App("few")
    app.stream("in", key=str, value=int).group_by_key().count(store="counts")
    made = serving(app, {"in": 3})
    for number in range(9):
        made.driver.pipe_input("in", f"k{number}", number)
    made.serve()
    return made


@contextmanager
def server_of(served: ServedTasks, number: int = 0, **settings: Any) -> Iterator[QueryServer]:
    """A server on any port of this machine."""
    chosen = {name.replace("_", "."): value for name, value in settings.items()}
    loaded = Settings.load({"http.port": 0, **chosen})
    member = MemberKey(f"p{number}", 0)
    with QueryServer(served, loaded, member, f"h{number}-0", SystemClock()) as server:
        yield server


@attrs.define(eq=False)
class Group:
    """Members that each have some tasks of a driver; the control topic is as they write it."""

    made: Serving
    members: list[ServedTasks] = attrs.field(factory=list)
    servers: list[QueryServer] = attrs.field(factory=list)
    entries: dict[MemberKey, StoreServer] = attrs.field(factory=dict)
    reported: dict[MemberKey, MemberProgress] = attrs.field(factory=dict)

    def view(self) -> ControlView:
        return ControlView(servers=self.entries, progress=self.reported)

    def begin(self) -> ServedTasks:
        """A member without a task."""
        served = ServedTasks()
        served.begin(
            ServingWorker(
                *(self.made.app.topology(), lambda: self.made.counts),
                *(lambda: self.made.owns, lambda: None, self.view),
            )
        )
        served.state = "RUNNING"
        self.members.append(served)
        return served

    def entered(self, number: int, server: QueryServer) -> None:
        """Write the address of a member."""
        self.servers.append(server)
        self.entries[server.entry.key] = server.entry

    def serve(self, number: int, *tasks: TaskId) -> None:
        """Let a member have tasks."""
        for task in tasks:
            active: Any = self.made.task(task)
            self.members[number].add(active)

    def report(self, number: int, *tasks: TaskId, role: str = "active") -> None:
        """Have a member report tasks, whether it has them or not."""
        server = self.servers[number]
        said = tuple(TaskProgress(str(task), role, "running") for task in tasks)
        self.reported[server.entry.key] = MemberProgress(
            server.entry.instance, 0, server.entry.member, "id", 0, "RUNNING", 1, tasks=said
        )


@contextmanager
def group_of(made: Serving, count: int, **settings: Any) -> Iterator[Group]:
    """Some members with their servers."""
    group = Group(made)
    with contextmanager(_opened)(group, count, settings):
        yield group


def _opened(group: Group, count: int, settings: dict[str, Any]) -> Iterator[None]:
    if not count:
        yield
        return
    number = len(group.members)
    with server_of(group.begin(), number, **settings) as server:
        group.entered(number, server)
        yield from _opened(group, count - 1, settings)


@contextmanager
def answering(status: int, body: bytes) -> Iterator[tuple[int, list[str]]]:
    """A program that answers anything so; its port, and what it was sent."""
    sent: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent.append(f"{self.path}\n{self.headers}")
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server.server_address[1], sent
        server.shutdown()
        thread.join()
