"""Asks several that may answer: one after the other, and beside one that takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias, TypeVar

from streamlet.state.query_errors import InvalidStateStoreError, StreamsNotStartedError

T = TypeVar("T")

#: Asks one of them.
Way: TypeAlias = Callable[[], Coroutine[Any, Any, T]]


def may_pass(error: InvalidStateStoreError) -> bool:
    """True if another member, or the same a little later, may answer."""
    return error.passing or isinstance(error, StreamsNotStartedError)


async def first_answer(ways: Sequence[Way[T]], last: Way[T], beside_s: float) -> T:
    """The first answer: each is asked once those before have refused, or one of them takes long.

    Args:
        ways: those that are left when the answer is there are cancelled.
        last: is asked once all of them have refused.
        beside_s: how long is long, s.

    Raises:
        InvalidStateStoreError: none answers: what the first that refused said; or what one said
            that would not pass elsewhere either.
    """
    rest, asked = iter(ways), set[asyncio.Task[T]]()
    problem: InvalidStateStoreError | None = None
    try:
        while (way := next(rest, None)) is not None or asked:
            if way is not None:
                asked.add(asyncio.create_task(way()))
            done, asked = await asyncio.wait(
                asked,
                timeout=None if way is None else beside_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            refused = [(one, error) for one in done if (error := one.exception()) is not None]
            for one in done.difference(one for one, _ in refused):
                return one.result()
            for _, error in refused:
                if not isinstance(error, InvalidStateStoreError) or not may_pass(error):
                    raise error
                problem = problem or error
    finally:
        for one in asked:
            one.cancel()
    try:
        return await last()
    except InvalidStateStoreError as error:
        if not may_pass(error):
            raise
        raise problem or error from error
