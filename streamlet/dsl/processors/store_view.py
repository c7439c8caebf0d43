"""The part that the stores of all kinds share, as processors, tests and queries see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import never_by_hand, never_copied
from streamlet.dsl.operators.hot_store import accepting, copier
from streamlet.dsl.processors.store_expiry import StoreExpiry
from streamlet.errors import SerdeError, TopologyError, WrongValueError
from streamlet.kafka.ports import Headers
from streamlet.logs import get_logger
from streamlet.serdes import Serde
from streamlet.state.query_errors import InvalidStateStoreError
from streamlet.state.rows import NO_TIME
from streamlet.state.store_commits import StoreCommits

log = get_logger(__name__)

#: What gives users a store.
WHO_GIVES = "a processor gets it by context.store(name), a test by TopologyTestDriver.store(name)"


@never_copied("dict(store.all()) gives what it has")
@explains_misuse
@never_by_hand(WHO_GIVES)
class StoreView:
    """The part that the views of all stores share.

    Args:
        store: of the task.
        value: serde of its values.
        read_only: why it can only be read; empty: processors may write it.
        expiry: of its entries; None: they never expire.
        of_table: true of a table's rows, which are seen with their times or without.
    """

    _store: Any

    def __init__(
        self,
        store: Any,
        value: Serde[Any],
        read_only: str = "",
        expiry: StoreExpiry | None = None,
        *,
        of_table: bool = False,
    ) -> None:
        self._store, self._value, self._read_only, self._expiry = store, value, read_only, expiry
        self._of_table = of_table
        self._check, self._copy = accepting(value), copier(value)
        self._dropped: Callable[[int], None] | None = None
        self._warned = False

    @property
    def name(self) -> str:
        """Its name."""
        name: str = self._store.name
        return name

    @property
    def keeps_headers(self) -> bool:
        """True if its rows have the headers of the records that changed them last."""
        kept: bool = self._store.commits.keeps_headers
        return kept

    def _headers(self, ckey: Any) -> Headers:
        """The headers of a row by its cache key.

        Raises:
            InvalidStateStoreError: the store keeps none.
        """
        self._check_headers()
        commits: StoreCommits = self._store.commits
        assert commits.headed is not None, "its rows have several windows or versions"
        return commits.headed.of_row(commits, ckey)

    def _check_headers(self) -> None:
        """Raise ``InvalidStateStoreError`` where the store keeps no headers."""
        if not self.keeps_headers:
            raise no_headers_kept(self.name)

    def _drop(self, what: str) -> None:
        """Count an entry that is too old to be stored, and warn once."""
        if self._dropped is not None:
            self._dropped(1)
        if not self._warned:
            self._warned = True
            log.warning("store %s: %s has expired and is not put; all are counted", self.name, what)

    def _key(self, key: Any) -> Any:
        if key is None:
            raise TypeError(f"store {self.name}: a key cannot be None")
        return key

    def _stored(self, value: Any) -> Any:
        """A value to store: checked, and a copy if it can change.

        Raises:
            SerdeError: the serde refuses it.
            TopologyError: the store can only be read.
        """
        if self._read_only:
            raise TopologyError(f"store {self.name} can only be read: {self._read_only}")
        try:
            self._check(value)
        except SerdeError as error:
            raise self._refused(", the value", error) from error
        return value if self._copy is None else self._copy(value)

    def _refused(self, what: str, error: SerdeError) -> SerdeError:
        return SerdeError(f"store {self.name}{what}: {error}")

    def _get(self, key: Any) -> Any:
        """The stored value of a key, unless it has expired."""
        try:
            return None if self._expired(self._key(key)) else self._store.get(key)
        except SerdeError as error:
            raise self._refused("", error) from error

    def _put(self, key: Any, value: Any, time: int) -> None:
        value = self._stored(value)
        try:
            self._store.put(self._key(key), value, NO_TIME if value is None else time)
        except SerdeError as error:
            raise self._refused("", error) from error
        if self._expiry is not None and value is not None:
            self._expiry.put(key, time)

    def _shown(self, found: Iterable[tuple[Any, Any]]) -> Iterable[tuple[Any, Any]]:
        """The entries that have not expired."""
        if self._expiry is None:
            return found
        self._expiry.now()  # noted also where there is no entry
        return ((key, value) for key, value in found if not self._expired(key))

    def _expired(self, key: Any) -> bool:
        return self._expiry is not None and not self._expiry.shows(key)

    def _read(self, value: Any) -> Any:
        return value if self._copy is None else self._copy(value)


def no_headers_kept(store: str) -> InvalidStateStoreError:
    """The error of a store that keeps no headers."""
    return InvalidStateStoreError(
        f"store {store} keeps no headers of records: make it with Materialized(headers=True)"
    )


@attrs.frozen
class _ClosedRows:
    """Stand for the rows of a store that is closed: whatever is asked of them is refused."""

    name: str
    why: str

    def __getattr__(self, _: str) -> Any:
        raise WrongValueError(f"store {self.name}: {self.why}")


def close_store(store: StoreView, why: str) -> None:
    """Have each later call of a store raise ``WrongValueError`` with this reason."""
    store._store, store._expiry = _ClosedRows(store.name, why), None


def count_dropped(store: object, dropped: Callable[[int], None]) -> None:
    """Tell ``dropped`` how many entries were too old to be put; only stores of ours count them."""
    if isinstance(store, StoreView):
        store._dropped = dropped
