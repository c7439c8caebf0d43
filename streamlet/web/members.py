"""Asks other members for the entries of their tasks, over HTTP.

The address of a member is what the control topic says. It may be out of date, be that of another
program by now, or be made up; so the token is not sent there, and what does not show that it is a
member's answer counts as none.
"""

from __future__ import annotations

import aiohttp
import attrs
import msgspec
from yarl import URL

from streamlet.bounded import whole
from streamlet.clock import Clock
from streamlet.control.values import StoreServer
from streamlet.queries.position import Position
from streamlet.state.query_errors import (
    InvalidStateStoreError,
    KeyNotFoundError,
    StateStoreMigratedError,
    UnauthorizedError,
)
from streamlet.web.answers import error_of
from streamlet.web.keys import address, with_parameters
from streamlet.web.pages import TaskPage
from streamlet.web.proofs import (
    ANSWER_PROOF,
    AT_LEAST,
    FOR_MEMBER,
    OF_PARTITION,
    authorization,
    is_answer,
)
from streamlet.web.reads import StoreRead

#: How long one member may take for its answer, s; others are asked behind it.
MOST_S = 2.0
#: How long a connection may take, s.
CONNECT_S = 0.5
#: Bytes of an answer, at most: a page, whose last entry may be large.
MOST_BYTES = 64 << 20

_PAGES = msgspec.json.Decoder(TaskPage)
_READ_BYTES = 1 << 16


@attrs.frozen(eq=False)
class MemberClient:
    """Asks other members; an ``AskMember``.

    Args:
        session: of HTTP, which leaves answers compressed.
        token: that members share; None: none.
        tls: whether only members that use TLS are asked.
        clock: the time.
    """

    session: aiohttp.ClientSession
    token: str | None
    tls: bool
    clock: Clock

    async def __call__(
        self, server: StoreServer, read: StoreRead, partition: int, left_ms: int
    ) -> TaskPage:
        """The entries of a task of the member.

        Raises:
            InvalidStateStoreError: it refuses, or gives no answer; the latter is passing.
        """
        asked = read.asked
        whose = f"store {asked.store!r}, partition {partition}: {server.member} at {server.address}"
        parameters = asked.parameters()
        if asked.newest:
            parameters["timeout"] = str(min(left_ms / 1_000, MOST_S / 2))
        target = with_parameters(f"{address('stores', asked.store)}{read.path}", parameters)
        headers = self._headers(server, read, partition)
        if self.token is not None:
            now_ms = self.clock.wall_ms()
            headers["Authorization"] = authorization(self.token, now_ms, target, headers)
        limit = aiohttp.ClientTimeout(
            total=min(max(left_ms / 1_000, CONNECT_S), MOST_S), sock_connect=CONNECT_S
        )
        try:
            url = URL(f"{self._base(server)}{target}", encoded=True)
            async with self.session.get(
                url, headers=headers, timeout=limit, allow_redirects=False
            ) as answer:
                body, proof = await _body(answer), answer.headers.get(ANSWER_PROOF, "")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            why = str(error) or type(error).__name__
            raise StateStoreMigratedError(f"{whose} does not answer: {why}; ask again") from error
        sent = headers.get("Authorization", "")
        if self.token is not None and not is_answer(self.token, sent, answer.status, body, proof):
            raise StateStoreMigratedError(
                f"{whose} does not show that it has the same http.token, or its clock is minutes "
                "away; ask again"
            )
        if answer.status != 200:
            raise _refusal(whose, error_of(body, answer.status))
        try:
            return _page(body)
        except (ValueError, RecursionError) as error:
            raise StateStoreMigratedError(f"{whose} gives no page of entries: {error}") from error

    def _headers(self, server: StoreServer, read: StoreRead, partition: int) -> dict[str, str]:
        """The headers of a question, with the offsets of the task's own input partitions."""
        found = {
            FOR_MEMBER: f"{server.instance}/{server.number}",
            OF_PARTITION: str(partition),
            "Accept-Encoding": "identity",
        }
        offsets = read.asked.at_least.offsets.items()
        needed = Position({tp: offset for tp, offset in offsets if tp.partition == partition})
        if needed.offsets:
            found[AT_LEAST] = msgspec.json.encode(needed.to_json()).decode()
        return found

    def _base(self, server: StoreServer) -> str:
        url = server.url
        if url is None:
            raise ValueError("there is no such address")
        if self.tls and not url.startswith("https:"):
            raise ValueError("it is to be asked without TLS, which this instance uses (http.ssl)")
        return url


async def _body(answer: aiohttp.ClientResponse) -> bytes:
    """The whole answer; an unusual one is cut off."""
    parts, size = [], 0
    async for part in answer.content.iter_chunked(_READ_BYTES):
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise ValueError(f"its answer has more than {MOST_BYTES:,} bytes")
    return b"".join(parts)


def _page(body: bytes) -> TaskPage:
    found = _PAGES.decode(body)
    Position.from_json(found.position)
    entries = [(place, entry.copy()) for place, entry in found.entries]  # and not all of the body
    return TaskPage(entries, found.more, found.position, whole(found.staleness_ms))


def _refusal(whose: str, error: InvalidStateStoreError) -> InvalidStateStoreError:
    """The error of a member; one that members do not give each other counts as no answer."""
    if isinstance(error, KeyNotFoundError | UnauthorizedError):
        return StateStoreMigratedError(f"{whose} does not answer: {error}")
    return error
