"""Asks other members for the entries of their tasks, over HTTP."""

from __future__ import annotations

from urllib.parse import quote

import aiohttp
import attrs
import msgspec

from streamlet.control.values import StoreServer
from streamlet.state.query_errors import StateStoreMigratedError
from streamlet.web.answers import error_of
from streamlet.web.pages import TaskPage
from streamlet.web.reads import StoreRead

#: Headers of a question between members: whom it is for, and of which task's partition it is.
FOR_MEMBER, OF_PARTITION = "Streamlet-For-Member", "Streamlet-Of-Partition"
#: The header of a position that an answer has to contain at least.
AT_LEAST = "Streamlet-At-Least"
#: How long one member may take for its answer, s; others are asked behind it.
MOST_S = 2.0
#: How long a connection may take, s.
CONNECT_S = 0.5

_PAGES = msgspec.json.Decoder(TaskPage)


@attrs.frozen(eq=False)
class MemberClient:
    """Asks other members; an ``AskMember``.

    Args:
        session: of HTTP.
        token: that requests bear; None: none.
    """

    session: aiohttp.ClientSession
    token: str | None

    async def __call__(
        self, server: StoreServer, read: StoreRead, partition: int, left_ms: int
    ) -> TaskPage:
        """The entries of a task of the member."""
        asked = read.asked
        parameters = asked.parameters()
        headers = {FOR_MEMBER: f"{server.instance}/{server.number}", OF_PARTITION: str(partition)}
        if asked.at_least.offsets:
            headers[AT_LEAST] = msgspec.json.encode(asked.at_least.to_json()).decode()
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if asked.newest:
            parameters["timeout"] = str(min(left_ms / 1_000, MOST_S / 2))
        path = f"/stores/{quote(asked.store, safe='')}{read.path}"
        url = f"{server.scheme}://{server.address}{path}"
        limit = aiohttp.ClientTimeout(
            total=min(max(left_ms / 1_000, CONNECT_S), MOST_S), sock_connect=CONNECT_S
        )
        try:
            async with self.session.get(
                url, params=parameters, headers=headers, timeout=limit, allow_redirects=False
            ) as answer:
                body = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = str(error) or type(error).__name__
            raise StateStoreMigratedError(
                f"store {asked.store!r}, partition {partition}: {server.member} at "
                f"{server.address} does not answer: {why}; ask again"
            ) from error
        if answer.status != 200:
            raise error_of(body, answer.status)
        try:
            return _PAGES.decode(body)
        except (ValueError, RecursionError) as error:
            raise error_of(body, 502) from error
