"""User functions over columns: one pass in C, and what came before a failure is kept.

Nothing here knows streams, tables or stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice, repeat
from operator import is_, is_not
from typing import Any

from streamlet import columnwise
from streamlet.batch import Batch, OperatorFailed
from streamlet.lazy_results import FINE, count_before_promise, promise_text
from streamlet.serdes import ColumnError


def collect(results: Iterable[Any], expected: int) -> tuple[list[Any], BaseException | None]:
    """All results, or those before the first failure together with the failure.

    ``results`` is lazy (a ``map``): ``list.extend`` keeps what it took before an exception, so the
    number of results is the index of the record that failed. A first result that is a coroutine or
    the like fails, too.
    """
    out: list[Any] = []
    try:
        out.extend(results)
    except KeyboardInterrupt:  # Ctrl-C, wherever it arrives
        raise
    except (
        BaseException
    ) as error:  # a user function may raise anything, or exit; the policy decides
        return out, error
    if out and type(out[0]) not in FINE and (reason := promise_text(out[0])) is not None:
        count_before_promise(out)  # which closes the others
        return [], TypeError(reason)
    if len(out) != expected:
        # A StopIteration from inside ends a map without a sound.
        return out, RuntimeError("the function raised StopIteration")
    return out, None


def collect_unused(results: Iterable[Any], expected: int) -> tuple[list[Any], BaseException | None]:
    """Collect results that nothing uses: a coroutine among them fails its record."""
    out, error = collect(results, expected)
    some = True
    with suppress(Exception):  # one may be of a class that has no truth
        some = any(out)  # else all are None, as of most functions that are called for what they do
    if some:
        count, reason = count_before_promise(out)
        if reason:
            return out[:count], TypeError(reason)
    return out, error


def converted(
    convert: Callable[[list[Any]], list[Any]],
    column: list[Any],
    error: BaseException | None = None,
) -> tuple[list[Any], BaseException | None]:
    """A column as far as a serde encodes or decodes it, and what failed first.

    ``error`` is what failed on the entry behind the column.
    """
    try:
        return convert(column), error
    except ColumnError as failed:
        return failed.done, failed.cause


def first_error(*errors: BaseException | None) -> BaseException | None:
    """The first error that is not None; ``or`` would lose an exception that is false."""
    return next((error for error in errors if error is not None), None)


_END = object()

#: Types whose truth is asked for in no time.
_PLAIN = (str, bytes, int, float, dict, list)


def has_null(column: list[Any]) -> bool:
    """True if there is a None; a value's own ``__eq__`` or ``__bool__`` is not called."""
    if column and type(column[0]) in _PLAIN:
        with suppress(Exception):  # one behind the first may be of a class that has no truth
            if all(column):
                return False  # the quickest no; an empty text or a zero only costs the second look
    return any(map(is_, column, repeat(None)))


def not_null(column: Iterable[Any]) -> list[bool]:
    """Mask of the entries that are not None."""
    return list(map(is_not, column, repeat(None)))


def complete(batch: Batch) -> list[bool] | None:
    """Mask of the records that have a key and a value; None: all."""
    if not (has_null(batch.keys) or has_null(batch.values)):
        return None
    pairs = zip(batch.keys, batch.values, strict=True)
    return [key is not None and value is not None for key, value in pairs]


def nth(mask: Iterable[Any], count: int) -> int:
    """The index of true entry number ``count`` of a mask, counted from 0."""
    return next(islice((index for index, kept in enumerate(mask) if kept), count, None))


def with_gaps(keys: list[Any], found: Sequence[Any]) -> list[Any]:
    """The entries found for the keys, and None for keys that are None, as far as they go."""
    if len(found) == len(keys):
        return list(found)
    rest = iter(found)
    out: list[Any] = []
    for key in keys:
        one = None if key is None else next(rest, _END)
        if one is _END:
            break
        out.append(one)
    return out


def spread(column: Sequence[Any], counts: list[int]) -> list[Any]:
    """Each entry repeated its count of times."""
    return columnwise.spread(column if type(column) is list else list(column), counts)


def spread_batch(batch: Batch, counts: list[int], values: list[Any] | None = None) -> Batch:
    """The records of a batch, each as often as its count says, without old values.

    With ``values``, these are theirs.
    """
    return Batch(
        batch.topic,
        batch.partition,
        spread(batch.offsets, counts),
        spread(batch.keys, counts),
        spread(batch.values, counts) if values is None else values,
        spread(batch.timestamps, counts),
        None if batch.headers is None else spread(batch.headers, counts),
    )


def over_values(function: Callable[..., Any], takes: int, keys: Any, values: Any) -> map[Any]:
    """A function of ``(value)`` or ``(key, value)`` over a batch, lazily."""
    return map(function, values) if takes == 1 else map(function, keys, values)


def first_of(batch: Batch, count: int) -> Batch:
    """The first records of a batch; the batch itself if these are all."""
    return batch if count == len(batch) else batch.slice(0, count)


def finished(
    done: Batch, error: BaseException | None, index: int | None = None, *, again: bool = True
) -> Batch:
    """The operator's output, or its failure on the record behind it.

    Args:
        done: the output.
        error: what failed.
        index: the number of records that the output is of, if it has not one of each.
        again: the operator has kept nothing of the record that failed.

    Raises:
        OperatorFailed: there is an error.
    """
    if error is not None:
        raise OperatorFailed(len(done) if index is None else index, done, again=again) from error
    return done
