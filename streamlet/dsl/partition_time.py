"""``with_partition_time``: extractors of timestamps that also see the time of the partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from streamlet.arguments import check_callable, told_by_form
from streamlet.dsl.graph.functions import check_takes

K = TypeVar("K")
V = TypeVar("V")


@attrs.frozen
class PartitionTimeExtractor:
    """An extractor of timestamps that is given the highest time of its partition so far."""

    function: Callable[..., int]

    def __call__(self, *arguments: Any) -> int:
        """The record's time; the partition's time is among the arguments."""
        return self.function(*arguments)


@told_by_form
def with_partition_time(
    function: Callable[[K, V, int, int], int],
) -> Callable[[K, V, int], int]:
    """Gives an extractor (``timestamp=``) the highest time of the partition as its last argument.

    The extractor is ``(key, value, timestamp_ms, partition_time_ms) -> ms``. The partition's
    time is the highest that the extractor gave a record of it before, since its task began to run
    here, and -1 before the first: what Kafka Streams calls ``partitionTime``.

    Raises:
        TopologyError: it is no function.
    """
    check_callable("with_partition_time()", function, "a function")
    return PartitionTimeExtractor(function)


def extractor(call: str, function: Callable[..., int] | None) -> tuple[Any, bool]:
    """The function of a source's timestamps, and whether it is given the partition's time.

    Raises:
        TopologyError: it does not take what it is called with.
    """
    if function is None:
        return None, False
    call, takes = f"{call}, timestamp=", ("key", "value", "timestamp_ms")
    if isinstance(function, PartitionTimeExtractor):
        check_takes(call, function.function, *takes, "partition_time_ms")
        return function.function, True
    check_takes(call, function, *takes)
    return function, False
