"""The server of queries: HTTP in the process that has the stores."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import aiohttp

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.control.values import MemberKey, StoreServer
from streamlet.logs import get_logger
from streamlet.tasks.served_tasks import ServedTasks
from streamlet.web.entry import server_entry
from streamlet.web.http_server import HttpServer
from streamlet.web.live.reader import LiveReader
from streamlet.web.members import MemberClient
from streamlet.web.requests import Requests
from streamlet.web.router import QueryRouter

log = get_logger(__name__)


class QueryServer(HttpServer):
    """Answers queries from the moment it is made until ``close``, and serves the live page.

    Args:
        served: the tasks of this process.
        settings: those of the server are among them.
        member: whose process it is.
        name: of the member.
        clock: the time.
        live: reads the application for the live page, and ends with the server; None: no page.

    Raises:
        ConfigError: it cannot listen, or a file of TLS cannot be read.
    """

    def __init__(
        self,
        served: ServedTasks,
        settings: Settings,
        member: MemberKey,
        name: str,
        clock: Clock,
        live: LiveReader | None = None,
    ) -> None:
        self._served, self._member, self._name, self._live = served, member, name, live
        super().__init__(settings, member.number, clock)
        log.info("queries are answered on %s, which shows the live page, too", self.url)

    @property
    def entry(self) -> StoreServer:
        """The server as other instances are to find it."""
        ours = self.scheme, self.port
        return server_entry(self.settings, self._member, self._name, ours)

    def requests(self, session: aiohttp.ClientSession, threads: ThreadPoolExecutor) -> Requests:
        """Queries of the tasks here, and of those that other members have."""
        token, tls = self.settings.http_token, self.scheme == "https"
        ask = MemberClient(session, token, tls, self.clock)
        router = QueryRouter(self._served, self._member, ask, threads, self.clock)
        return Requests(router, self.settings, self._live, self.clock)

    def close(self) -> None:
        """End as ``HttpServer``, and the reader of the live page with it."""
        super().close()
        if self._live is not None:
            self._live.close()
