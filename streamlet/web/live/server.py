"""The server of the live page by itself, for an application that runs elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, TypeAlias

import aiohttp
from aiohttp import web

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.state.query_errors import InvalidQueryError
from streamlet.web.answers import HttpAnswer, document
from streamlet.web.http_server import HttpServer
from streamlet.web.live.reader import LiveFeed
from streamlet.web.requests import Requests, parameters_of

#: Asks an instance of the application: given the path and parameters, it gives the document.
#: It raises InvalidStateStoreError.
AskInstance: TypeAlias = Callable[[str, dict[str, str]], dict[str, Any]]


class ForwardedRequests(Requests):
    """Answers with the live page, and has instances answer queries.

    Args:
        settings: who may ask is among them.
        live: gives the document of the page.
        clock: the time.
        ask: asks an instance.
        threads: where it does.
    """

    def __init__(
        self, settings: Settings, live: LiveFeed, clock: Clock, ask: AskInstance, threads: Executor
    ) -> None:
        super().__init__(None, settings, live, clock)
        self._ask, self._threads = ask, threads

    async def stores(self, request: web.BaseRequest, parts: list[str]) -> HttpAnswer:
        """The answer of an instance."""
        if parts[0] not in ("stores", "openapi.json"):
            raise InvalidQueryError("there are / with the live page, /live.json and /stores")
        path = request.rel_url.raw_path
        given = parameters_of(request.rel_url.raw_query_string)
        loop = asyncio.get_running_loop()
        return document(await loop.run_in_executor(self._threads, self._ask, path, given))


class LivePageServer(HttpServer):
    """Serves the live page from the moment it is made until ``close``.

    Args:
        live: gives the document of the page.
        ask: asks an instance for what its stores have.
        settings: those of the server are among them.
        clock: the time.

    Raises:
        ConfigError: it cannot listen there.
    """

    def __init__(self, live: LiveFeed, ask: AskInstance, settings: Settings, clock: Clock) -> None:
        self._live, self._ask = live, ask
        super().__init__(settings, 0, clock)

    def requests(self, session: aiohttp.ClientSession, threads: ThreadPoolExecutor) -> Requests:
        """The page, and queries that instances answer."""
        return ForwardedRequests(self.settings, self._live, self.clock, self._ask, threads)
