"""Internal topics that a broker made by itself, made right before they are used.

A broker with ``auto.create.topics.enable``, which is Kafka's default, makes a topic that any client
asks for: also a changelog that was deleted while its application runs. Such a topic has as many
partitions as the broker's ``num.partitions`` says, and none of the settings that internal topics
are made with, so the broker would delete its records by age. It gets both. What it lacks is then
found and filled from local state, as after each loss of a changelog (``tasks.mismatch``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamlet.counted import counted
from streamlet.errors import TopologyError
from streamlet.kafka.ports import Admin, NewTopic
from streamlet.logs import get_logger

log = get_logger(__name__)

#: What topics of ours are told apart by, kind by kind: a default is never that.
_TELLING = ("cleanup.policy", "retention.ms", "min.compaction.lag.ms")


def make_right(
    wanted: Sequence[NewTopic], counts: Mapping[str, int], admin: Admin
) -> dict[str, int]:
    """Give internal topics that a broker made their partitions and settings.

    Returns:
        The partitions of those that were made right.

    Raises:
        BrokerError: the broker does not answer, or refuses.
        TopologyError: one has more partitions than it is to have, which cannot be taken away.
    """
    made = _made_by_broker(wanted, counts, admin)
    for topic in made:
        if counts[topic.name] > topic.partitions:
            raise TopologyError(
                f"{topic.name} was made by a broker (auto.create.topics.enable) with "
                f"{counted(counts[topic.name], 'partition')} in place of {topic.partitions}. Stop "
                "all instances and delete it: a start makes it again, and fills it from the state "
                "on their disks"
            )
    smaller = [topic for topic in made if counts[topic.name] < topic.partitions]
    admin.grow_topics({topic.name: topic.partitions for topic in smaller})
    refused = admin.alter_topics({topic.name: dict(topic.config) for topic in made})
    for topic in made:
        log.warning(
            "%s was made by a broker, with %s and none of its settings "
            "(auto.create.topics.enable); %s",
            *(topic.name, counted(counts[topic.name], "partition")),
            f"its settings cannot be changed: {refused[topic.name]}"
            if topic.name in refused
            else f"it has {topic.partitions} and its settings now",
        )
    return {topic.name: topic.partitions for topic in made}


def _made_by_broker(
    wanted: Sequence[NewTopic], counts: Mapping[str, int], admin: Admin
) -> list[NewTopic]:
    """The topics that bear none of the settings that streamlet makes topics with."""
    there = [topic for topic in wanted if topic.name in counts]
    found = admin.topic_settings([topic.name for topic in there])
    doubtful = [
        topic
        for topic in there
        if topic.name in found  # else we may not look
        and (counts[topic.name] != topic.partitions or _differs(topic, found[topic.name]))
    ]
    definitions = admin.definitions([topic.name for topic in doubtful])
    return [
        topic
        for topic in doubtful
        if topic.name in definitions
        and not {name for name, _ in definitions[topic.name].config} & {*_TELLING}
    ]


def _differs(topic: NewTopic, found: Mapping[str, str]) -> bool:
    """True if the broker tells another value of one of these settings."""
    own = dict(topic.config)
    return any(name in own and found.get(name, own[name]) != own[name] for name in _TELLING)
