"""Stores of a user's own over rows that are kept like all others, and one of the latest keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Never, TypeVar
from weakref import WeakKeyDictionary

from streamlet.absent import explains_misuse
from streamlet.arguments import never_by_hand, rare_calls_told_by_form, refuse_more
from streamlet.dsl.processors.store_view import WHO_GIVES
from streamlet.dsl.processors.store_views import NO_DEFAULT, NO_TIMES, KeyValueStore
from streamlet.errors import StreamletError, error_text
from streamlet.lazy_results import refuse_promise
from streamlet.serdes import Serde
from streamlet.state.store import CachedStore

K = TypeVar("K")
V = TypeVar("V")

#: ``(rows) -> store``: makes the object that processors get as their store.
MakeStore = Callable[[KeyValueStore[Any, Any]], Any]

#: Objects of each task, by the names of their stores: processors of a task share them.
_OBJECTS: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


@rare_calls_told_by_form
@explains_misuse
@never_by_hand(WHO_GIVES)
class LruStore(KeyValueStore[K, V], Generic[K, V]):
    """A store of values by key that keeps the latest keys only, as Kafka Streams' ``lruMap``.

    A key is used by ``get`` and ``put``. Where a put makes it more than ``max_entries``, the key
    that was not used for longest is deleted, in the changelog too. After a restart or a hand-over
    keys count as used when they were put last. The rest is as of ``KeyValueStore``; reads of
    several keys use none.

    Args:
        store: of the task; the time of a row is the number of its put.
        value: serde of the values.
        max_entries: the most keys.
    """

    _store: CachedStore

    def __init__(self, store: CachedStore, value: Serde[Any], max_entries: int) -> None:
        super().__init__(store, value)
        self._max_entries = max_entries
        rows = [(store.timestamp(key) or 0, key) for key, _ in store.range()]
        rows.sort(key=lambda row: row[0])
        keys = [key for _, key in rows]
        #: Keys by their cache keys, the one that was not used for longest first.
        self._order: dict[Any, Any] = dict(zip(store.ckeys(keys), keys, strict=True))

    def get(self, key: K, *more: Never, **named: Never) -> V | None:
        """The value of a key, or None; the key counts as used."""
        if more or named:
            refuse_more("get(key)", NO_DEFAULT)
        found = super().get(key)
        if found is not None:
            self._use(key)
        return found

    def put(self, key: K, value: V | None, *more: Never, **named: Never) -> None:
        """Set the value of a key, or delete it with None; may delete another key."""
        if more or named:
            refuse_more("put(key, value)", NO_TIMES)
        self._put(key, value, self._store.commits.latest + 1)
        if value is None:
            self._order.pop(self._ckey(key), None)
            return
        self._use(key)
        while len(self._order) > self._max_entries:
            oldest = self._order.pop(next(iter(self._order)))
            self._put(oldest, None, 0)

    def timestamp(self, key: Any) -> int | None:
        """None: values have no times."""
        return None

    def _use(self, key: Any) -> None:
        ckey = self._ckey(key)
        self._order.pop(ckey, None)
        self._order[ckey] = key

    def _ckey(self, key: Any) -> Any:
        (ckey,) = self._store.ckeys([key])
        return ckey


def object_of(task: Any, name: str, make: Callable[[], Any]) -> Any:
    """A task's store as an object of the user's, made on first use.

    Raises:
        StreamletError: the user's function failed, or gave None.
    """
    objects = _OBJECTS.setdefault(task, {})
    if name not in objects:
        try:
            made = make()
            refuse_promise(made)
        except (StreamletError, KeyboardInterrupt):
            raise
        except BaseException as error:  # a user function may raise anything, or exit
            raise StreamletError(f"store {name!r}: make failed: {error_text(error)}") from error
        if made is None:
            raise StreamletError(f"store {name!r}: make gave None; it gives the object to use")
        objects[name] = made
    return objects[name]
