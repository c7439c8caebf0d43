"""The topic of each record, for sinks that write to several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from streamlet.batch import Batch
from streamlet.control.topic import is_control_topic
from streamlet.dsl.operators.columns import collect, finished, first_of
from streamlet.errors import TopologyError
from streamlet.lazy_results import refuse_promise
from streamlet.topology.names import check_topic_name
from streamlet.user_code import shown


class TopicNames(dict[Any, str]):
    """Topic names that were checked; looking one up checks it first.

    Args:
        check: refuses further names, by ``TopologyError``.
    """

    def __init__(self, check: Callable[[str], None]) -> None:
        super().__init__()
        self._check = check

    def __missing__(self, topic: Any) -> str:
        """The name itself.

        Raises:
            TypeError: it is no text.
            TopologyError: Kafka takes no such name, or it is one of Kafka's own topics, the
                control topic of an application or one that ``check`` refuses: names may stem from
                records, which anyone writes.
        """
        if type(topic) is not str:
            refuse_promise(topic)
            raise TypeError(f"expected the name of a topic, got {shown(topic)}")
        check_topic_name(topic, "a record's topic")
        if topic.startswith("__") or is_control_topic(topic):
            raise TopologyError(f"a record's topic {topic}: no function writes to it")
        self._check(topic)
        self[topic] = topic
        return topic

    def of(self, topic: Any) -> str:
        """The name; what has no hash is refused like any other that is no text."""
        return self[topic] if type(topic) is str else self.__missing__(topic)


@attrs.frozen
class ChooseTopics:
    """Puts the topic of each record in the column ``olds``, which streams do not use."""

    function: Callable[[Any, Any], Any]
    names: TopicNames

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function fails or returns no name of a topic."""
        chosen = map(self.names.of, map(self.function, batch.keys, batch.values))
        topics, error = collect(chosen, len(batch))
        done = first_of(batch, len(topics))
        return finished(done.with_values(done.values, topics), error)
