"""Specs of stores for the tests of the state room."""

from typing import Any

from streamlet.serdes import serde
from streamlet.state.store_specs import StoreSpec, VersionSpec, WindowSpec
from streamlet.types import TopicPartition


class Layout(WindowSpec):
    """The windows of a store."""

    def __init__(
        self,
        key: Any = str,
        text: str = "",
        retention_ms: int | None = 100,
        size_ms: int | None = 10,
        grace_ms: int = 0,
        **how: Any,
    ) -> None:
        super().__init__(serde(key), text, retention_ms, size_ms, grace_ms, **how)


class Spec(StoreSpec):
    """A store; serdes may be given by their types."""

    def __init__(self, name: str, key: Any = str, value: Any = int, **how: Any) -> None:
        super().__init__(name, serde(key), serde(value), **how)


def versions(key: Any = str, history_ms: int = 100) -> VersionSpec:
    """The history of a versioned store."""
    return VersionSpec(serde(key), serde(str), history_ms)


def changelog(store: str, partition: int = 0) -> TopicPartition:
    """The changelog partition that belongs to a store in these tests."""
    return TopicPartition(f"app-{store}-changelog", partition)
