"""Tokens of the connections to a coordinator, which are there before one is asked for.

kafka-python asks for a token on its I/O thread, where nothing slow may run, and on which the
heartbeats go out. So a thread of its own gets them: the first when a connection is about to be
made, each other one when four fifths of the last one's time are over, as librdkafka has it. A
connection lives on over that: it logs in again, at 85 to 95 percent of its time, with the new one.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from streamlet.clock import Clock
from streamlet.coordinator.events import FailureKind
from streamlet.coordinator.ports import TransportError
from streamlet.errors import NO_TOKEN
from streamlet.kafka.oidc import Token, TokenError, ask_endpoint, extensions_of
from streamlet.kafka.token_functions import PAUSES_MS, TokenFunction, renewal_ms
from streamlet.logs import get_logger
from streamlet.retries import Retries

with warnings.catch_warnings():
    # kafka-python reads its schemas by a call that Python calls deprecated; not our users' concern.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import KafkaConnectionError
    from kafka.net.sasl.oauth import AbstractTokenProvider

log = get_logger(__name__)

#: Gets a token; may take its time. Raises ``TokenError``.
Fetch = Callable[[], Token]

_WAIT_S = 0.02


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Has a token that is valid, as long as they can be got; thread-safe.

    Args:
        fetch: gets one.
        clock: the time.
    """

    def __init__(self, fetch: Fetch, clock: Clock) -> None:
        self._fetch, self._clock = fetch, clock
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._token: Token | None = None
        self._error = TokenError("none was got yet")
        self._closed = False

    def token(self) -> str:
        """The token. Called by kafka-python as it logs in.

        Raises:
            KafkaConnectionError: there is none that is valid.
        """
        token = self._valid()
        if token is None:
            raise KafkaConnectionError(self._reason())
        return token.text

    def extensions(self) -> dict[str, str]:
        """The extensions that are sent with the token."""
        token = self._token
        return {} if token is None else dict(token.extensions)

    async def ready(self, sleep: Callable[[float], Any], deadline_ms: int) -> None:
        """Return as soon as there is a token.

        Args:
            sleep: of the loop that waits.
            deadline_ms: how long it waits, on the monotonic clock.

        Raises:
            TransportError: there is none in time, or it is refused.
        """
        self._start()
        while self._valid() is None:
            if self._error.final:
                raise TransportError(FailureKind.AUTHENTICATION, self._reason(), sent=False)
            if self._clock.now_ms() >= deadline_ms:
                raise TransportError(FailureKind.TIMEOUT, self._reason(), sent=False)
            await sleep(_WAIT_S)

    def close(self) -> None:
        """End the thread; a request that is under way is not waited for."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _valid(self) -> Token | None:
        token = self._token
        return token if token is not None and token.expires_ms > self._clock.wall_ms() else None

    def _reason(self) -> str:
        return f"{NO_TOKEN}: {self._error}"

    def _start(self) -> None:
        with self._changed:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(
                    target=self._renew, name="streamlet-tokens", daemon=True
                )
                self._thread.start()

    def _renew(self) -> None:
        retries = Retries(*PAUSES_MS)
        while True:
            try:
                self._token = token = self._fetch()
            except Exception as error:  # whatever it is, the next try may succeed
                self._error = error if isinstance(error, TokenError) else _unforeseen(error)
                level = logging.DEBUG if self._error.final else logging.WARNING
                log.log(level, "%s", self._reason())
                wait_ms = retries.next_ms()
            else:
                retries.reset()
                self._error = TokenError("the last one has expired")
                wait_ms = renewal_ms(token.expires_ms, self._clock.wall_ms())
            with self._changed:
                if self._closed or self._changed.wait_for(lambda: self._closed, wait_ms / 1000):
                    return


def _unforeseen(error: Exception) -> TokenError:
    """An error that nothing is known of, by its kind alone: its text may have a secret."""
    return TokenError(f"getting one failed with {type(error).__name__}")


def fetch_from(config: Mapping[str, Any], function: TokenFunction | None, clock: Clock) -> Fetch:
    """The way to get tokens by these settings, in librdkafka's words.

    Args:
        config: the settings.
        function: in place of the token endpoint.
        clock: the time.
    """
    if function is None:
        return lambda: ask_endpoint(config, clock.wall_ms())
    argument, settled = str(config.get("sasl.oauthbearer.config", "")), extensions_of(config)

    def fetch() -> Token:
        try:
            text, expires_s, *rest = function.get(argument)
        except Exception as error:  # a function of the user raises what it likes
            raise TokenError(function.problem, final=function.final) from error
        extensions = rest[1] if len(rest) > 1 else None
        return Token(text, int(expires_s * 1000), {**settled, **(extensions or {})})

    return fetch
