"""The operator of ``map_batches``: functions that take many records at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import index as as_index
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.operators.copies import Own, copies
from streamlet.dsl.operators.record_batch import FailedAt, NoColumnError, RecordBatch, column_of
from streamlet.errors import TopologyError, error_text
from streamlet.logs import get_logger
from streamlet.user_code import shown

log = get_logger(__name__)

CALL = "map_batches()"
_MOST = 100_000


def check_most(max_records: int) -> None:
    """Refuse a size of batches that cannot be.

    Raises:
        TopologyError: it cannot.
    """
    if type(max_records) is not int or not 1 <= max_records <= _MOST:
        raise TopologyError(f"{CALL}: max_records {shown(max_records)}: expected 1 to {_MOST:,}")


@attrs.frozen
class _Rest:
    """The records behind one that failed, which were in the same call: how these are taken.

    ``behind`` is the number of records behind them. ``error``: they fail by it, too; None: the
    function is called for each by itself.
    """

    behind: int
    error: NoColumnError | None = None


@attrs.define
class MapBatches:
    """Replaces values by the column that ``function(RecordBatch)`` returns.

    ``given`` makes copies of keys and values that it is called with, ``own`` of what it returns;
    None: these cannot change. The others as of ``topology.operator.GatheringOperator``.
    """

    function: Callable[[RecordBatch[Any, Any]], Any]
    max_records: int
    max_wait_ms: int
    given: Own = None
    own: Own = None
    #: Set when a record fails: the records behind it come next, or itself and these once more.
    _rest: _Rest | None = attrs.field(default=None, init=False)
    _said: bool = attrs.field(default=False, init=False)

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function fails, or returns no such column.

        A record that it names fails behind a call for those before it. Else they are taken one by
        one, so that the record that fails alone is found.
        """
        rest, self._rest = self._rest, None
        single = 0 if rest is None else len(batch) - rest.behind
        failed: tuple[int, int, BaseException] | None = None
        if rest is not None and rest.error is not None:
            failed = 0, single, rest.error
        named: tuple[int, BaseException] | None = None
        done: list[Any] = []
        while failed is None and (at := len(done)) < len(batch):
            if named is not None and named[0] == at:
                failed = at, single, named[1]
                break
            end = at + 1 if at < single else min(at + self.max_records, len(batch))
            if named is not None:
                end = min(end, named[0])
            try:
                done += self._results(batch.slice(at, end))
            except KeyboardInterrupt:  # Ctrl-C, wherever it arrives
                raise
            except NoColumnError as error:
                failed = at, end, error
            except BaseException as error:  # it may raise anything, or exit; the policy decides
                index = None if named is not None else _named(error, end - at)
                if end == at + 1:
                    failed = at, single, error
                elif index is not None:
                    named = at + index, error
                else:
                    single = end
                    self._say(error, end - at)
        if failed is not None:
            raise self._failure(batch, done, *failed)
        return batch.with_values(done)

    def process_together(self, runs: Sequence[Batch]) -> list[Batch] | None:
        """Records of several partitions in one call; None if it fails."""
        headers = [one.headers or [None] * len(one) for one in runs]
        try:
            values = self._called(
                _chained([one.keys for one in runs]),
                _chained([one.values for one in runs]),
                _chained([one.timestamps for one in runs]),
                _chained(headers),
            )
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # each run meets the policy by itself
            log.debug("%s is called for each partition: %s", CALL, error_text(error))
            return None
        rest = iter(values)
        return [one.with_values([next(rest) for _ in range(len(one))]) for one in runs]

    def _results(self, some: Batch) -> list[Any]:
        return self._called(some.keys, some.values, some.timestamps, some.headers)

    def _called(self, keys: Any, values: Any, timestamps: Any, headers: Any) -> list[Any]:
        count = len(values)
        keys, values = copies(keys, self.given), copies(values, self.given)
        result = self.function(RecordBatch(keys, values, timestamps, headers))
        return copies(column_of(result, count), self.own)

    def _failure(
        self, batch: Batch, done: list[Any], at: int, end: int, error: BaseException
    ) -> OperatorFailed:
        """The failure of a record that was taken with those before ``end``."""
        if end > at + 1:
            self._rest = _Rest(len(batch) - end, error if type(error) is NoColumnError else None)
        failed = OperatorFailed(at, batch.slice(0, at).with_values(done), again=True)
        cause = error.__cause__ if issubclass(type(error), FailedAt) else None
        failed.__cause__ = cause or error
        return failed

    def _say(self, error: BaseException, count: int) -> None:
        """Log once that a batch is taken record by record: it may succeed so, and be slow."""
        if not self._said:
            self._said = True
            log.warning(
                "a function of %s failed for a batch of %d records, which are taken one by one: %s",
                *(CALL, count, error_text(error)),
            )


def _chained(columns: list[list[Any]]) -> list[Any]:
    return list(chain.from_iterable(columns))


def _named(error: BaseException, count: int) -> int | None:
    """The index of the record that an error names; None: it names none of them."""
    if not issubclass(type(error), FailedAt):
        return None
    try:
        index = as_index(error.index)  # type: ignore[attr-defined]
    except Exception:  # a class of the user's without an index, or with one that is no number
        return None
    return index if 0 <= index < count else None
