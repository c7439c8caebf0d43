"""A task's store as operators use it: keys, rows and times of a batch's records in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Protocol

from streamlet.batch import Batch
from streamlet.columnwise import highest_time, late_places
from streamlet.dsl.operators.columns import collect
from streamlet.errors import SerdeError
from streamlet.lazy_results import refuse_promise
from streamlet.serdes import ColumnError, Serde
from streamlet.serdes.serde import wrong_type
from streamlet.state.store import CachedStore

Function = Callable[..., Any]


class StoreWithKeys(Protocol):
    """A task's store that has keys of its own for its cache."""

    def ckeys(self, keys: list[Any]) -> list[Any]:
        """The cache's keys for a column of keys."""
        ...


def row_times(
    store: CachedStore, ckeys: list[Any], existed: Callable[[int], bool], times: list[int]
) -> list[int]:
    """Mark rows that were aggregated, each with the highest time of its records; these times.

    A row begins with its record where it had not ``existed`` before the record at an index. Rows
    are looked up only for records that are behind another one: any other is the youngest of its
    row.
    """
    late = late_places(times, store.commits.latest)
    if not late:
        note_times(store, ckeys, times)
        return times
    out = times.copy()
    rows, rest, begin = iter(ckeys), iter(out), 0
    for at in late:
        store.mark(islice(rows, at - begin), islice(rest, at - begin))
        if existed(at):
            out[at] = max(times[at], store.time_of(ckeys[at]))
        begin = at
    store.mark(rows, rest)
    store.commits.reached(highest_time(times))
    return out


def note_times(store: CachedStore, ckeys: Iterable[Any], times: list[int]) -> None:
    """Mark the rows that were written with their times."""
    store.mark(ckeys, times)
    if times:
        store.commits.reached(highest_time(times))


def keyed(store: StoreWithKeys, batch: Batch) -> tuple[Batch, list[Any], BaseException | None]:
    """The batch with its cache keys, cut before the first key that the store's serde refuses."""
    try:
        return batch, store.ckeys(batch.keys), None
    except ColumnError as failed:
        part = batch.slice(0, failed.index)
        return part, store.ckeys(part.keys) if failed.index else [], failed.cause


def loaded(store: CachedStore, ckeys: list[Any]) -> bool:
    """Have the rows of these cache keys in the cache; False: one by one, as a key has no bytes."""
    try:
        store.load_many(ckeys)
    except SerdeError:
        return False
    return True


def copier(serde: Serde[Any]) -> Callable[[Any], Any] | None:
    """A function that copies a value (None stays None); None if no reader needs one."""
    if serde.as_kept is not None:
        return serde.as_kept
    if serde.immutable:
        return None
    if serde.fast_copy is not None:
        return serde.fast_copy
    copy = serde.copy
    return lambda value: None if value is None else copy(value)


def reader(serde: Serde[Any]) -> Callable[[Any], Any] | None:
    """A function that copies stored values for users' functions; None if values are immutable."""
    return None if serde.immutable else copier(serde)


def keeper(serde: Serde[Any], what: str = "") -> Callable[[Any], Any]:
    """A function that gives a value as a store keeps it: ``accepting`` and ``copier`` in one.

    It raises what the serde refuses it with; ``what`` as of ``accepting``.
    """
    accepts, check, copy = serde.accepts, accepting(serde, what), copier(serde)
    if not accepts:
        return copy or (lambda value: value)

    def taken(value: Any) -> Any:
        if type(value) not in accepts and value is not None:
            check(value)
        return value

    def kept(value: Any) -> Any:
        if type(value) not in accepts and value is not None:
            check(value)
        assert copy is not None
        return copy(value)

    return taken if copy is None else kept


def kept(serde: Serde[Any], values: list[Any]) -> tuple[list[Any], BaseException | None]:
    """Copies of values for a store, up to one that has no bytes, and its failure."""
    if serde.copy_all is not None:
        quick = serde.copy_all(values)
        if quick is not None:
            return quick, None
    return copied(copier(serde), values)


def copied(
    copy: Callable[[Any], Any] | None, values: list[Any]
) -> tuple[list[Any], BaseException | None]:
    """Copies of values as ``copier`` makes them, up to one that has no bytes, and its failure."""
    return (values, None) if copy is None else collect(map(copy, values), len(values))


def accepting(serde: Serde[Any], what: str = "") -> Callable[[Any], None]:
    """A check that the serde takes a value, made before the store has it.

    Without it the mistake would come to light at the commit, and no record could be named.
    ``what`` is what messages call the value: the argument whose function gave it, or its result.
    """
    called = f"{what}: {serde.name}" if what else serde.name
    accepts = serde.accepts
    if not accepts:
        return lambda value: None

    def check(value: Any) -> None:
        if type(value) not in accepts and value is not None:
            refuse_promise(value)
            raise wrong_type(called, accepts, value)

    return check
