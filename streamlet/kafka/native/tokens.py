"""Tokens that a client of the extension logs in with, got by a function of the user.

A thread for each client calls the function: it may take its time, and a worker that is busy with
its records for long has a valid token all the same.
"""

from __future__ import annotations

import threading
import weakref
from queue import Empty, SimpleQueue
from typing import Any

import attrs
from confluent_kafka import KafkaError, KafkaException

from streamlet.clock import SystemClock
from streamlet.errors import NO_TOKEN, error_text
from streamlet.kafka.log import log
from streamlet.kafka.token_functions import FIRST_S, PAUSES_MS, TokenFunction, renewal_ms
from streamlet.retries import Retries


def keep_logged_in(client: Any, function: TokenFunction, argument: str) -> None:
    """Give a client a token, and another before each expires, as long as there is the client.

    Args:
        client: of the extension; nothing here keeps it.
        function: gets tokens.
        argument: of the function.

    Raises:
        KafkaException: it has none in ``FIRST_S`` seconds, or there will never be one.
    """
    keeper = _Keeper(function, argument)
    keeper.begin(client)
    try:
        problem = keeper.first.get(timeout=FIRST_S)
    except Empty:
        problem = keeper.problem
    if problem:
        client.close()
        raise KafkaException(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED, problem))


@attrs.define(eq=False)
class _Keeper:
    """Gets tokens on a thread, which ends with the client.

    Attributes:
        problem: of the last token.
        first: gets the problem of the first token, empty for none, once it is settled.
        gone: gets something when the client is there no more. No lock is taken for that, since the
            collector may find the client amid anything.
    """

    function: TokenFunction
    argument: str
    problem: str = f"the function that gets tokens took {FIRST_S:g} s"
    first: SimpleQueue[str] = attrs.field(factory=SimpleQueue)
    gone: SimpleQueue[object] = attrs.field(factory=SimpleQueue)

    def begin(self, client: Any) -> None:
        """Start the thread."""
        seen = weakref.ref(client, self.gone.put)
        name = "streamlet-tokens"
        threading.Thread(target=self._run, args=(seen,), name=name, daemon=True).start()

    def _run(self, seen: weakref.ref[Any]) -> None:
        retries = Retries(*PAUSES_MS)
        while True:
            try:
                wait_ms = self._renew(seen)
            except Exception as error:
                self.problem = self.function.problem or error_text(error)
                lasts = _failed(seen, f"{NO_TOKEN}: {self.problem}")
                if self.function.final or not lasts:
                    self.first.put(self.problem)
                    return
                wait_ms = retries.next_ms()
            else:
                retries.reset()
                self.first.put("")
            try:
                self.gone.get(timeout=wait_ms / 1000)
            except Empty:
                continue
            return

    def _renew(self, seen: weakref.ref[Any]) -> int:
        """Get a token and give it to the client; ms until the next."""
        text, expires_s, *rest = self.function.get(self.argument)
        principal = rest[0] if rest else ""
        extensions = rest[1] if len(rest) > 1 else {}
        expires_ms = int(expires_s * 1000)
        client = seen()
        if client is not None:
            pairs = tuple(part for pair in extensions.items() for part in pair)
            client.set_token(text, expires_ms, principal, pairs)
        return renewal_ms(expires_ms, SystemClock().wall_ms())


def _failed(seen: weakref.ref[Any], reason: str) -> bool:
    """Note at the client that there is no token; False if it is closed or gone."""
    client = seen()
    if client is None:
        return False
    try:
        client.token_failed(reason)
    except RuntimeError:  # closed, which is no news
        return False
    log.warning("%s", reason)
    return True
