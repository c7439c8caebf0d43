"""The metrics of stores and of nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from streamlet.runtime.metrics.metric import Value, counter, gauge, histogram
from streamlet.state.backing import StoreFigures
from streamlet.state.buffer_store import BufferStore
from streamlet.state.rocksdb_options import BLOCK_KINDS

if TYPE_CHECKING:
    from streamlet.processing.node_meters import NodeMeter
    from streamlet.runtime.metrics.measure import MeasuredMember

_S = "streamlet_stream_state_"
_N = "streamlet_stream_processor_node_process_"
_STORE = ("task", "store")


def _of_stores(
    value: Callable[[StoreFigures], float | None], member: MeasuredMember
) -> dict[tuple[str, ...], Value]:
    """A value of each store that has it."""
    found = member.meters.stores.figures(member.tasks)
    return {key: known for key, one in found.items() if (known := value(one)) is not None}


def _of_medium(name: str, member: MeasuredMember) -> dict[tuple[str, ...], Value]:
    """A figure of RocksDB of each store that is on disk."""
    return _of_stores(lambda one: one.medium.get(name), member)


def _of_nodes(
    value: Callable[[NodeMeter], float], member: MeasuredMember
) -> dict[tuple[str, ...], Value]:
    return {
        (name, node): value(one)
        for name, task in member.tasks.items()
        for node, one in task.meters.nodes.items()
    }


def _block_cache(member: MeasuredMember) -> dict[tuple[str, ...], Value]:
    found = _of_medium("block-cache-usage", member).values()
    return {(): max(found)} if found else {}


def _of_databases(name: str, member: MeasuredMember) -> dict[tuple[str, ...], Value]:
    """A counter that RocksDB keeps of each task's database, if it is to; all stores tell it."""
    return {(task,): count for (task, _), count in _of_medium(name, member).items()}


def _of_blocks(what: str, member: MeasuredMember) -> dict[tuple[str, ...], Value]:
    return {
        (task, kind): count
        for kind in BLOCK_KINDS
        for (task,), count in _of_databases(f"block.cache.{kind}.{what}", member).items()
    }


def _stalls(member: MeasuredMember) -> dict[tuple[str, ...], Value]:
    found = _of_stores(_stalled_s, member)
    return {(task,): seconds for (task, _), seconds in found.items()}


def _stalled_s(figures: StoreFigures) -> float | None:
    micros = figures.medium.get("stall.micros")
    return None if micros is None else micros / 1e6


def _of_buffers(
    value: Callable[[BufferStore], float | None], by_node: bool, member: MeasuredMember
) -> dict[tuple[str, ...], Value]:
    """A value of each buffer of ``suppress`` that has it, by its store or by its node."""
    found: dict[tuple[str, ...], Value] = {}
    for name, task in member.tasks.items():
        for node in task.subtopology.processors:
            for store in node.stores:
                kept = task.state.stores.get(store)
                if not isinstance(kept, BufferStore) or node.grace_ms is not None:
                    continue
                if (known := value(kept)) is not None:
                    found[name, node.name if by_node else store] = known
    return found


def _buffered_bytes(buffer: BufferStore) -> float | None:
    return None if buffer.order.size < 0 else buffer.order.size


_KEPT = "Updates that wait in a buffer of suppress"

STATE_METRICS = (
    counter(
        _N + "total",
        "Records that an operator was given since the task began to run here",
        ("task", "node"),
        partial(_of_nodes, lambda one: one.records),
    ),
    counter(
        _N + "seconds_total",
        "Seconds that it took for them, without the operators behind it; of batches of less than 8 "
        "records every sixteenth is timed",
        ("task", "node"),
        partial(_of_nodes, lambda one: one.ns / 1e9),
    ),
    counter(
        "streamlet_stream_task_punctuate_total",
        "Calls of punctuators and timers since the task began to run here",
        ("task",),
        of_task=lambda task: task.meters.punctuated,
    ),
    histogram(
        "streamlet_consumer_coordinator_partition_assigned_latency_seconds",
        "From taking an assignment until it was acted on; tasks come up afterwards",
        of=lambda m: m.meters.assigned.value(),
    ),
    counter(
        _S + "put_total",
        "Rows that commits put on the store's medium; a row may be changed many times before",
        _STORE,
        partial(_of_stores, lambda one: one.written),
    ),
    counter(
        _S + "get_total",
        "Rows that were asked of the medium, because they were not in memory",
        _STORE,
        partial(_of_stores, lambda one: one.read),
    ),
    gauge(
        _S + "cache_bytes",
        "Memory of the rows that a store keeps in memory, an estimate",
        _STORE,
        partial(_of_stores, lambda one: one.cached_bytes),
    ),
    *(
        gauge(_S + name, help, _STORE, partial(_of_medium, figure))
        for name, figure, help in (
            ("estimate_num_keys", "estimate-num-keys", "Keys of a store on disk, an estimate"),
            ("total_sst_files_size_bytes", "total-sst-files-size", "Its files on disk"),
            ("size_all_mem_tables_bytes", "size-all-mem-tables", "Its memtables"),
            (
                "estimate_pending_compaction_bytes",
                "estimate-pending-compaction-bytes",
                "What compactions have still to rewrite of it, an estimate",
            ),
            ("num_running_compactions", "num-running-compactions", "Its compactions under way"),
            ("write_stopped", "is-write-stopped", "1 while RocksDB takes no writes (a stall)"),
            ("background_errors", "background-errors", "Errors of its flushes and compactions"),
        )
    ),
    counter(
        "streamlet_stream_processor_node_suppression_emit_total",
        "Updates that suppress sent since the task began to run here; of those that came, the "
        "others were replaced or wait",
        ("task", "node"),
        partial(_of_buffers, lambda one: one.sent, True),
    ),
    gauge(
        _S + "suppression_buffer_records",
        _KEPT,
        _STORE,
        partial(_of_buffers, lambda one: one.order.count, False),
    ),
    gauge(
        _S + "suppression_buffer_size_bytes",
        "Bytes of their keys and values, of a buffer that is bounded by bytes",
        _STORE,
        partial(_of_buffers, _buffered_bytes, False),
    ),
    *(
        counter(
            f"{_S}block_cache_{name}_total",
            f"Blocks of files (data, index, filter) that were asked of RocksDB's cache and {help}; "
            "with `metrics.recording.level=debug`",
            ("task", "kind"),
            partial(_of_blocks, what),
        )
        for name, what, help in (
            ("hits", "hit", "were there"),
            ("misses", "miss", "had to be read"),
        )
    ),
    *(
        counter(
            f"{_S}memtable_{name}_total",
            f"Rows that were asked of RocksDB and {help}; with `metrics.recording.level=debug`",
            ("task",),
            partial(_of_databases, f"memtable.{what}"),
        )
        for name, what, help in (
            ("hits", "hit", "were in a memtable"),
            ("misses", "miss", "had to be looked up in files"),
        )
    ),
    counter(
        _S + "write_stall_seconds_total",
        "Seconds that writes waited for RocksDB's flushes and compactions; with "
        "`metrics.recording.level=debug`",
        ("task",),
        _stalls,
    ),
    gauge(
        _S + "block_cache_usage_bytes",
        "RocksDB's block cache, which all stores of the process share",
        of=_block_cache,
    ),
)
