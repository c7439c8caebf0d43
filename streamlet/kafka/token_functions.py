"""Functions of the user that get tokens, as confluent-kafka's ``oauth_cb``, for both clients."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any

import attrs

from streamlet.config.security import MSK_IAM, OAUTH_FUNCTION
from streamlet.errors import error_text
from streamlet.kafka.aws_tokens import msk_tokens

#: How long a client that is made waits for its first token, s; as confluent-kafka has it.
FIRST_S = 10.0
#: No time of a token's is later, s since the epoch: it would be ms, or no number.
_LATEST_S = 253_402_300_800
#: The first pause and the longest one behind a token that was not got.
PAUSES_MS = 500, 10_000
_RENEWED_AT = 0.8
_SHORTEST_MS, _DAY_MS = 1_000, 86_400_000


@attrs.define
class TokenFunction:
    """A function that notes what is wrong with what it does: the clients only say that it failed.

    Attributes:
        function: takes ``sasl.oauthbearer.config``, returns the token and when it expires, in
            seconds since the epoch; behind them a principal and a mapping of extensions, if any.
        problem: of the last call, empty for none.
        final: True if calling it again is of no use.
        expires_s: when the last token expires, s since the epoch.
    """

    function: Callable[[str], Any]
    problem: str = ""
    final: bool = False
    expires_s: float = math.inf
    #: A call that has not returned yet, or not while its caller waited.
    _called: Future[Any] | None = attrs.field(default=None, init=False)

    def get(self, config: str) -> tuple[Any, ...]:
        """Call it, and check what it returns."""
        try:
            given = self.function(config)
        except Exception as error:
            self.problem = f"the function that gets tokens raised {error_text(error)}"
            raise
        found = _expected(given)
        if found is None:
            self.final = True
            self.problem = (
                "the function that gets tokens must return the token and when it expires, in "
                "seconds since the epoch, and may return a principal and a dict of extensions; "
                f"it returned {_kinds(given)}"
            )
            raise TypeError(self.problem)
        self.problem, self.expires_s = "", found[1]
        return found

    def __call__(self, config: str) -> tuple[Any, ...]:
        """Call it on another thread, and wait for some seconds: a client would hang with it.

        A call that has not returned is waited for by the next one.
        """
        if self._called is None:
            self._called = Future()
            run = threading.Thread(target=_call, args=(self.get, config, self._called), daemon=True)
            run.start()
        done = self._called
        wait([done], FIRST_S)
        if not done.done():
            self.problem = f"the function that gets tokens has not returned for {FIRST_S:.0f} s"
            raise TimeoutError(self.problem)
        self._called = None
        found: tuple[Any, ...] = done.result()
        return found


def renewal_ms(expires_ms: int, now_ms: int) -> int:
    """The time until the next token is got; one that lasts longer is taken for one of a day."""
    return max(_SHORTEST_MS, int(min(expires_ms - now_ms, _DAY_MS) * _RENEWED_AT))


def _call(function: Callable[[str], Any], config: str, called: Future[Any]) -> None:
    try:
        called.set_result(function(config))
    except BaseException as error:  # the caller raises it
        called.set_exception(error)


def _expected(given: object) -> tuple[Any, ...] | None:
    """The token with what belongs to it, out of what a function returned; None if it is none."""
    match given:
        case (str(), int() | float() as expires_s) | (str(), int() | float() as expires_s, str()):
            extensions: Mapping[object, object] = {}
        case (str(), int() | float() as expires_s, str(), dict() as extensions):
            pass
        case _:
            return None
    texts = all(isinstance(one, str) for pair in extensions.items() for one in pair)
    return tuple(given) if texts and abs(expires_s) < _LATEST_S else None


def _kinds(given: object) -> str:
    """The types of what was returned, without a value: one of them may be a token."""
    if not isinstance(given, tuple | list):
        return type(given).__name__
    return f"({', '.join(type(one).__name__ for one in given)})"


def token_function(config: Mapping[str, Any], bootstrap_servers: str) -> TokenFunction | None:
    """The function that gets tokens by these settings, if it is one that does.

    Raises:
        ConfigError: tokens of AWS are wanted, and cannot be had.
    """
    if config.get("sasl.mechanism") == MSK_IAM:
        return TokenFunction(msk_tokens(bootstrap_servers))
    function = config.get(OAUTH_FUNCTION)
    return None if function is None else TokenFunction(function)
