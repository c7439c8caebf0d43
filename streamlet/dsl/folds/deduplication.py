"""The operator that lets one record of a key go on within a time.

The times of the records that went on are kept in the rows of a window store
(``state.bucket_store``), so they expire with stream time, and one that comes out of order is
compared with those after it as well.
"""

from __future__ import annotations

from typing import Any

import attrs

from streamlet.batch import Batch
from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.graph.materialized import Materialized, StoreLike
from streamlet.dsl.operators.columns import finished
from streamlet.dsl.operators.hot_store import keyed
from streamlet.errors import StateError, TopologyError
from streamlet.serdes import Serde, serde
from streamlet.state.bucket_store import BucketStore, bucket_rows
from streamlet.state.store_specs import StoreSpec, WindowSpec
from streamlet.state.window_rows import row_keys
from streamlet.topology.operator import TaskContext


@attrs.frozen
class Deduplicate:
    """Lets a record go on unless one of its key did that is not further than ``within_ms`` from it.

    Args:
        name: of the node.
        context: counts late records.
        store: times of the records that went on, by key.
        within_ms: the time.
        grace_ms: a record that is so much older than stream time is late, and left out.
    """

    name: str
    context: TaskContext
    store: BucketStore
    within_ms: int
    grace_ms: int

    def process(self, batch: Batch) -> Batch:
        """The records that go on.

        Raises:
            OperatorFailed: the serde refuses a key.
        """
        given, ckeys, error = keyed(self.store, batch)
        self._load(ckeys, given.timestamps)
        observed = self.store.progress.observed
        mask: list[bool] = []
        late: list[bool] = []
        try:
            for ckey, time in zip(ckeys, given.timestamps, strict=True):
                observed = max(observed, time)
                is_late = time < observed - self.grace_ms
                goes = not is_late and self._goes_on(ckey, time)
                mask.append(goes)
                late.append(is_late)
        except (StateError, KeyboardInterrupt):
            raise
        except BaseException as failure:  # a cache that takes no large rows
            error = failure
        self.store.advance(observed, observed)  # rows expire by stream time
        done = given.slice(0, len(mask))
        if any(late):
            self.context.late(self.name, sum(late), lambda: done.select(late))
        out = done if all(mask) else done.select(mask)
        return finished(out, error, len(mask), again=False)

    def _load(self, ckeys: list[Any], times: list[int]) -> None:
        """Bring the rows of all records into the cache."""
        bucket, within = self.store.layout.bucket_ms, self.within_ms
        self.store.load_many(
            [
                (start, ckey)
                for ckey, time in zip(ckeys, times, strict=True)
                for start in range(
                    time - within - (time - within) % bucket, time + within + 1, bucket
                )
            ]
        )

    def _goes_on(self, ckey: Any, time: int) -> bool:
        """True for a record that is no repetition; notes it as passed on."""
        store = self.store
        if store.items(ckey, time - self.within_ms, time + self.within_ms):
            return False
        store.replace(ckey, (), [(time, time, b"")], time)
        return True


def deduplication_store(
    builder: Builder, store: StoreLike, key: Serde[Any], within_ms: int, grace_ms: int
) -> StoreSpec:
    """The store of a deduplication.

    Raises:
        TopologyError: a retention is given.
    """
    if Materialized.of(store).retention is not None:
        raise TopologyError("deduplicate(): the retention follows from within= and grace=")
    text = f"one within {within_ms} ms"
    window = WindowSpec(key, text, within_ms + grace_ms + 1, 1, grace_ms, within_ms + 1)
    rows = attrs.evolve(row_keys(key), name=f"{text}: {key.name}")
    return builder.store(
        store, "KSTREAM-DEDUPLICATE-", rows, bucket_rows(serde(bytes)), window=window
    )
