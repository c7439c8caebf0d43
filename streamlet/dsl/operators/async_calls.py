"""The operator of ``map_values_async``: calls of users' async functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from inspect import isawaitable
from types import CoroutineType
from typing import Any, Literal, TypeAlias

import attrs

from streamlet.errors import TopologyError
from streamlet.lazy_results import refuse_promise
from streamlet.serdes import Serde
from streamlet.topology.operator import RetryRule
from streamlet.user_code import shown

#: The orders in which results of calls go on.
Order: TypeAlias = Literal["key", "partition"]

CALL = "map_values_async()"
_MOST = 10_000


def check_calls(concurrency: int, order: str) -> None:
    """Refuse a number of calls or an order that cannot be.

    Raises:
        TopologyError: it cannot.
    """
    if type(concurrency) is not int or not 1 <= concurrency <= _MOST:
        raise TopologyError(f"{CALL}: concurrency {shown(concurrency)}: expected 1 to {_MOST:,}")
    if order not in ("key", "partition"):
        raise TopologyError(f"{CALL}: order={shown(order)}: expected 'key' or 'partition'")


def retry_rule(retry: Any) -> RetryRule | None:
    """The retry rule of failed calls, checked; the application's policy decides afterwards.

    Raises:
        TopologyError: it is none, or has an answer of its own.
    """
    if retry is None:
        return None
    if not isinstance(retry, RetryRule):
        raise TopologyError(f"{CALL}: retry {shown(retry)}: expected a streamlet.Retry")
    if retry.then.action != "fail":
        raise TopologyError(
            f"{CALL}: retry {shown(retry)}: leave out then=. What becomes of a record when its "
            "last call failed is decided by processing_handler or on_error of the App"
        )
    return retry


@attrs.frozen
class MapValuesAsync:
    """Replaces values by the awaited results of ``function(value)`` or ``function(key, value)``.

    ``takes`` is the number of its arguments. ``key`` is the serde of the keys, by which calls wait
    for each other; None: they do not. The others as of ``topology.operator.CallingOperator``.
    """

    function: Callable[..., Any]
    takes: int
    concurrency: int
    timeout_ms: int | None
    retry: RetryRule | None
    in_order: bool
    key: Serde[Any] | None

    def call(self, key: Any, value: Any) -> Awaitable[Any]:
        """The call for a record.

        Raises:
            TypeError: the function returned what cannot be awaited.
        """
        made: Any = self.function(value) if self.takes == 1 else self.function(key, value)
        if type(made) is not CoroutineType and not isawaitable(made):
            refuse_promise(made)
            raise TypeError(
                f"the function returned {shown(made)}, which cannot be awaited: give {CALL} an "
                "async function, or map_values() this one"
            )
        return made

    def lane(self, key: Any) -> Hashable | None:
        """The key itself if it is plain, else its bytes.

        Raises:
            SerdeError: the key cannot be encoded.
        """
        if self.key is None or key is None or type(key) in (str, bytes, int):
            return None if self.key is None else key
        encoded: bytes | None = self.key.encode(key)
        return encoded
