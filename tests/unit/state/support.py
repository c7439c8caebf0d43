"""Specs of stores for the tests of the state room."""

from typing import Any

import attrs

from streamlet.serdes import Serde, serde
from streamlet.state.rocks_choice import RocksChoice
from streamlet.state.source_times import Extractor
from streamlet.state.store_facts import BufferLayout
from streamlet.state.version_rows import VersionLayout
from streamlet.state.window_rows import WindowLayout
from streamlet.types import TopicPartition


@attrs.frozen(eq=False)
class Layout:
    """The windows of a store, as ``state.window_rows.WindowLayout``."""

    key: Serde[Any] = attrs.field(converter=serde, default=str)
    retention_ms: int | None = 100
    size_ms: int | None = 10
    bucket_ms: int = 0
    end_of: Any = None
    final: bool = False


@attrs.frozen(eq=False)
class Spec:
    """As ``topology.nodes.StoreSpec``, which this room may not import."""

    name: str
    key: Serde[Any] = attrs.field(converter=serde, default=str)
    value: Serde[Any] = attrs.field(converter=serde, default=int)
    persistent: bool = True
    logged: bool = True
    source_topic: str | None = None
    window: WindowLayout | None = None
    buffer: BufferLayout | None = None
    join: str = ""
    versions: VersionLayout | None = None
    timers: bool = False
    extractor: Extractor | None = None
    ttl_ms: int | None = None
    groups: bool = False
    rocks: RocksChoice | None = None
    headers: bool = False


def changelog(store: str, partition: int = 0) -> TopicPartition:
    """The changelog partition that belongs to a store in these tests."""
    return TopicPartition(f"app-{store}-changelog", partition)
