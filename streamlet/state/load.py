"""Filling a store from its changelog, chunk by chunk.

A chunk keeps the last value of each key and goes to the medium in one piece, as one sorted file if
it is large. Its size bounds the memory that a restore takes, and the time in which nothing else
happens; the loader's caller bounds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamlet.kafka.ports import Headers
from streamlet.state.backing import Columns
from streamlet.state.row_headers import RowHeaders
from streamlet.types import NO_STATE, StateNumber, TopicPartition

if TYPE_CHECKING:
    from streamlet.state.task_state import TaskState


class Loader:
    """Fills one store; see ``TaskState.loader``."""

    def __init__(
        self,
        target: TaskState,
        store: str,
        partition: TopicPartition,
        headers: RowHeaders | None,
    ) -> None:
        self._target, self._headers = target, headers
        self._store = store
        self._partition = partition
        self._chunk: dict[bytes, bytes | None] = {}
        #: Bytes of the keys and values taken since the last flush, replaced ones included.
        self.bytes = 0

    @property
    def records(self) -> int:
        """Different keys in the chunk."""
        return len(self._chunk)

    def add(self, keys: list[bytes], values: list[bytes | None]) -> None:
        """Take entries in the order of the changelog; a value of None deletes."""
        self._chunk.update(zip(keys, values, strict=True))
        self.bytes += sum(map(len, keys)) + sum(map(len, filter(None, values)))

    def note(self, keys: Sequence[bytes | None], headers: Sequence[Headers | None] | None) -> None:
        """Take the headers of records of the changelog, where those are kept."""
        if self._headers is not None:
            self._headers.read(keys, headers)

    def flush(
        self,
        position: int,
        epoch: int,
        at_ms: int | None = None,
        newest: StateNumber = NO_STATE,
    ) -> None:
        """Put the chunk on the medium.

        Args:
            position: next offset to read.
            epoch: highest epoch met before it.
            at_ms: wall-clock time at which the log ended there; None: it is not known.
            newest: highest number among the entries.

        Raises:
            StateError: the medium refused.
        """
        chunk = Columns(self._store, list(self._chunk), list(self._chunk.values()))
        self._target.load(chunk, self._partition, position, epoch, at_ms, newest)
        self._chunk = {}
        self.bytes = 0
