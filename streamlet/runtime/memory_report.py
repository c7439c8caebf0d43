"""The report of a worker's memory: the bytes of each part, and their bounds."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from streamlet.config import Settings
from streamlet.state.rocksdb_options import memory_used
from streamlet.tasks.task_registry import TaskRegistry


@attrs.frozen
class MemoryReport:
    """Reports the memory that settings bound.

    Args:
        settings: have the bounds.
        used: bytes of RocksDB's block cache and of its memtables.
    """

    _settings: Settings
    _used: Callable[[], tuple[int, int]] = memory_used

    def parts(self, registry: TaskRegistry) -> tuple[tuple[str, int, int], ...]:
        """Each part with the bytes it uses, an estimate, and the bytes it may use."""
        settings = self._settings
        blocks, memtables = self._used()
        return (
            ("caches", registry.cached_bytes(), settings.cache_max_bytes),
            ("input", registry.waiting_bytes(), settings.input_buffer_max_bytes),
            ("blocks", blocks, settings.rocksdb_block_cache_bytes),
            ("memtables", memtables, settings.rocksdb_memtables_bytes),
        )
