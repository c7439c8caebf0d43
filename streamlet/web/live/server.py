"""The server of the live page by itself, for an application that runs elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, TypeAlias

import aiohttp
import attrs
from aiohttp import web

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.state.query_errors import InvalidQueryError, NotUpToBoundError
from streamlet.web.answers import HttpAnswer, document
from streamlet.web.http_server import HttpServer
from streamlet.web.live.answers import playback
from streamlet.web.live.reader import LiveReader
from streamlet.web.live.simulations import MOST_BYTES, Simulations
from streamlet.web.requests import Requests, parameters_of

#: Asks an instance of the application: given the path and parameters, it gives the document.
#: It raises InvalidStateStoreError.
AskInstance: TypeAlias = Callable[[str, dict[str, str]], dict[str, Any]]


@attrs.define(eq=False)
class ForwardedRequests(Requests):
    """Answers with the live page, and has instances answer queries.

    Args:
        router: none.
        settings: who may ask is among them.
        live: gives the document of the page.
        clock: the time.
        ask: asks an instance.
        threads: where it does.
        player: plays scenarios.
    """

    _ask: AskInstance
    _threads: Executor
    _player: Simulations

    def check_method(self, request: web.BaseRequest) -> None:
        """Let a scenario come by POST, as JSON only: other sites may not send that."""
        if request.path != "/simulations" or request.method != "POST":
            super().check_method(request)
        elif request.content_type != "application/json":
            raise InvalidQueryError("a scenario comes as application/json")

    async def stores(self, request: web.BaseRequest, parts: list[str]) -> HttpAnswer:
        """The answer of an instance, or a simulation."""
        if parts[0] == "simulations":
            return await self._simulation(request, parts[1:])
        if parts[0] not in ("stores", "openapi.json"):
            raise InvalidQueryError(
                "there are / with the live page, /live.json, /stores and /simulations"
            )
        path = request.rel_url.raw_path
        given = parameters_of(request.rel_url.raw_query_string)
        loop = asyncio.get_running_loop()
        return document(await loop.run_in_executor(self._threads, self._ask, path, given))

    async def _simulation(self, request: web.BaseRequest, parts: list[str]) -> HttpAnswer:
        """The number of a page for a scenario, or that page."""
        if not parts and request.method == "POST":
            scenario = await request.content.read(MOST_BYTES + 1)
            while len(scenario) <= MOST_BYTES and not request.content.at_eof():
                scenario += await request.content.read(MOST_BYTES + 1)
            return document({"number": self._player.begin(scenario)})
        if len(parts) != 1 or not (parts[0].isascii() and parts[0].isdecimal()):
            raise InvalidQueryError("there are POST /simulations and /simulations/NUMBER")
        found = self._player.page(int(parts[0][:9]))
        if found is None:
            raise NotUpToBoundError("the scenario is being played; ask again")
        return playback(found)


class LivePageServer(HttpServer):
    """Serves the live page from the moment it is made until ``close``.

    Args:
        live: gives the document of the page.
        ask: asks an instance for what its stores have.
        player: plays scenarios.
        settings: those of the server are among them.
        clock: the time.

    Raises:
        ConfigError: it cannot listen there.
    """

    def __init__(
        self,
        live: LiveReader,
        ask: AskInstance,
        player: Simulations,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._live, self._ask, self._player = live, ask, player
        super().__init__(settings, 0, clock)

    def requests(self, session: aiohttp.ClientSession, threads: ThreadPoolExecutor) -> Requests:
        """The page, and queries that instances answer."""
        how = None, self.settings, self._live, self.clock
        return ForwardedRequests(*how, self._ask, threads, self._player)
