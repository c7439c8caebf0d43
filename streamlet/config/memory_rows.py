"""The rows of the table of settings that bound memory, and how one budget is split."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import attrs

from streamlet.config.row import row
from streamlet.config.values import optional, size

_row = partial(row, "memory")
#: The smallest budget: below it one large record would leave nothing for the others.
LEAST_BYTES = 64 << 20

#: Percent of the budget that a setting is given, and that clients' queues are given.
_SHARES = {
    "cache.max.bytes": 40,
    "input.buffer.max.bytes": 15,
    "rocksdb.block.cache.bytes": 10,
    "rocksdb.memtables.bytes": 10,
}
_QUEUES = {
    ("consumer", "queued.max.messages.kbytes"): 10,
    ("restore.consumer", "queued.max.messages.kbytes"): 5,
    ("producer", "queue.buffering.max.kbytes"): 10,
}
#: What librdkafka takes at most for them.
_MOST_KBYTES = 2_097_151


@attrs.frozen(hash=False, slots=False)  # one of the bases of ``Settings`` may have slots
class MemorySettings:
    """The settings that bound the memory of a worker; rows of ``Settings``."""

    memory_max_bytes: int | None = _row(
        optional(size(), "none"),
        None,
        "Memory of one worker process for records and state, at least 64 MiB. It is split: "
        "40 % to `cache.max.bytes`, 15 % to `input.buffer.max.bytes`, 10 % each to "
        "`rocksdb.block.cache.bytes` and `rocksdb.memtables.bytes`, 15 % to what consumers have "
        "fetched and 10 % to what the producer has to send. A bound that is given keeps its "
        "value. Python, its modules and your functions' objects come on top.",
        "none: each bound has its own default",
    )
    cache_max_bytes: int = _row(size(), 64 << 20, "Memory of one worker's write-behind caches.")
    input_buffer_max_bytes: int = _row(
        size(),
        512 << 20,
        "Memory of the records that one worker has read ahead, an estimate: a partition is "
        "paused once its share waits. `buffered.records.per.partition` bounds their number.",
    )
    rocksdb_block_cache_bytes: int = _row(
        size(),
        16 << 20,
        "Memory of blocks of files that RocksDB keeps, for all stores of one worker.",
    )
    rocksdb_memtables_bytes: int = _row(
        size(),
        24 << 20,
        "Memory of rows that RocksDB has not written to files yet, for all stores of one worker.",
    )


def shares(budget: int, given: frozenset[str]) -> dict[str, int]:
    """The bounds that a budget gives, by attribute; none that was given itself."""
    return {
        key.replace(".", "_"): budget * percent // 100
        for key, percent in _SHARES.items()
        if key not in given
    }


def with_queues(
    budget: int, clients: Mapping[str, Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """The clients' properties with the bounds of their queues; those that were given stay.

    What is given for all consumers holds for those that restore, too.
    """
    found: dict[str, Mapping[str, Any]] = dict(clients)
    for (kind, key), percent in _QUEUES.items():
        general = clients.get("consumer", {}) if kind.endswith("consumer") else {}
        if key not in general:
            kbytes = max(1, min(budget * percent // 100 >> 10, _MOST_KBYTES))
            found[kind] = {key: kbytes, **found.get(kind, {})}
    return found


def memory_problems(settings: MemorySettings) -> list[str]:
    """Bounds that are too small, a line each."""
    budget = settings.memory_max_bytes
    problems = []
    if budget is not None and budget < LEAST_BYTES:
        problems.append(f"memory.max.bytes = {budget}: expected at least {LEAST_BYTES} (64 MiB)")
    for key in ("rocksdb.block.cache.bytes", "rocksdb.memtables.bytes"):
        value = getattr(settings, key.replace(".", "_"))
        if value < 1 << 20:
            problems.append(f"{key} = {value}: expected at least {1 << 20} (1 MiB)")
    return problems
