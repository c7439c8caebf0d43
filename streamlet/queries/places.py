"""The partitions where keys lie, as far as their partitioner is known or shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from streamlet.dsl.processors.store_builders import StoreBuilder
from streamlet.kafka.placements import DEFAULT, PARTITIONERS, place
from streamlet.state.query_errors import InvalidStateStoreError
from streamlet.state.store_specs import StoreSpec
from streamlet.tasks.served_tasks import ServedTasks
from streamlet.topology.graph import Topology
from streamlet.topology.nodes import SourceNode
from streamlet.topology.subtopologies import Subtopology

#: Keys of a store, or of one of its tasks, that show by which partitioner they lie.
ENOUGH_KEYS = 20


@attrs.frozen
class KeyPlaces:
    """The partitions where a key may be, the likeliest first; ``certain``: it is in no other."""

    partitions: tuple[int, ...]
    certain: bool


def first_found(answers: Iterable[Any]) -> Any:
    """The first of several tasks' answers about a key that has something; else one that has not."""
    found: Any = None
    for found in answers:
        if isinstance(found, Iterator):
            entries = list(found)
            found = iter(entries)
            if entries:
                break
        elif found is not None:
            break
    return found


@attrs.frozen(eq=False)
class Placement:
    """The way in which the keys of a store lie in its partitions.

    Args:
        served: knows the partitioners that have shown.
        topology: the application's.
        subtopology: of it that has the store.
        spec: the store.
        samples: gives partitions with the bytes of some record keys that lie there.
    """

    served: ServedTasks
    topology: Topology
    subtopology: Subtopology
    spec: StoreSpec
    samples: Callable[[], list[tuple[int, bytes]]]

    def of(self, raw: bytes, count: int) -> KeyPlaces:
        """The places of a key, of so many partitions.

        Raises:
            InvalidStateStoreError: the keys that are here lie as no known partitioner puts them.
        """
        names = self._partitioners(count)
        places = dict.fromkeys(place(name)(raw, count) for name in names)
        return KeyPlaces((*places,), certain=self._is_certain(names))

    def _partitioners(self, count: int) -> tuple[str, ...]:
        """The partitioners by which the keys may lie.

        That of a repartition topic is known, and so is one that its source names in place of the
        default. Else the rows that are here show it: a producer of another partitioner would make
        a store look empty for half of its keys.
        """
        known = self.served.partitioners.get(self.spec.name)
        if known is not None:
            return (known,)
        source = self.subtopology.sources[0]
        sample = self.samples()
        fitting = tuple(
            name
            for name in dict.fromkeys((source.partitioner, *PARTITIONERS))
            if all(place(name)(key, count) == number for number, key in sample)
        )
        if not fitting:
            raise InvalidStateStoreError(
                f"keys of store {self.spec.name!r} lie in other partitions than any known "
                "partitioner puts them into: name the partition (partition=)"
            )
        if fitting[0] == source.partitioner and self._is_named(source):
            fitting = fitting[:1]
        if len(fitting) == 1 and len(sample) >= ENOUGH_KEYS:
            self.served.partitioners[self.spec.name] = fitting[0]
        return fitting

    def _is_certain(self, names: tuple[str, ...]) -> bool:
        """True if no other partitioner than the one there is can have placed a key.

        A store that processors keep has whatever keys they put into it.
        """
        if isinstance(getattr(self.spec.shown, "__self__", None), StoreBuilder):
            return False
        known = self.spec.name in self.served.partitioners or self._is_named(
            self.subtopology.sources[0]
        )
        return len(names) == 1 and known

    def _is_named(self, source: SourceNode) -> bool:
        """True if the partitioner of a source counts, unless the rows show another one."""
        ours = self.topology.repartition_topics
        return (
            source.partitioner != DEFAULT
            or any(topic in ours and self._is_by_key(topic) for topic in source.topics)
            or self.spec.versions is not None  # whose keys are not looked at
        )

    def _is_by_key(self, topic: str) -> bool:
        """True if all records of a repartition topic lie by the bytes of their whole keys."""
        sinks = (sink for subtopology in self.topology.subtopologies for sink in subtopology.sinks)
        return not any(
            sink.partitioner or sink.partitions_of or sink.by_base
            for sink in sinks
            if sink.topic == topic
        )
