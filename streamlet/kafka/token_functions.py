"""Functions of the user that get tokens, as confluent-kafka's ``oauth_cb``, for both clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from streamlet.config.security import MSK_IAM, OAUTH_FUNCTION
from streamlet.errors import error_text
from streamlet.kafka.aws_tokens import msk_tokens

NO_TOKEN = "no token to log in with"


@attrs.define
class TokenFunction:
    """A function that notes what is wrong with what it does: the clients only say that it failed.

    Attributes:
        function: takes ``sasl.oauthbearer.config``, returns the token and when it expires, in
            seconds since the epoch; behind them a principal and a mapping of extensions, if any.
        problem: of the last call, empty for none.
        final: True if calling it again is of no use.
    """

    function: Callable[[str], Any]
    problem: str = ""
    final: bool = False

    def __call__(self, config: str) -> tuple[Any, ...]:
        """Call it, and check what it returns."""
        try:
            given = self.function(config)
        except Exception as error:
            self.problem = f"the function that gets tokens raised {error_text(error)}"
            raise
        match given:
            case (str(), int() | float(), *_):
                self.problem = ""
                return tuple(given)
            case _:
                self.final = True
                self.problem = (
                    "the function that gets tokens must return the token and when it expires, in "
                    f"seconds since the epoch; it returned {type(given).__name__}"
                )
                raise TypeError(self.problem)


def token_function(config: Mapping[str, Any], bootstrap_servers: str) -> TokenFunction | None:
    """The function that gets tokens by these settings, if it is one that does.

    Raises:
        ConfigError: tokens of AWS are wanted, and cannot be had.
    """
    if config.get("sasl.mechanism") == MSK_IAM:
        return TokenFunction(msk_tokens(bootstrap_servers))
    function = config.get(OAUTH_FUNCTION)
    return None if function is None else TokenFunction(function)
