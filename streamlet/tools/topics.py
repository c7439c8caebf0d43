"""``streamlet topics``: what is needed of topics before an application can run."""

from __future__ import annotations

from contextlib import closing
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from streamlet.config.relations import MOST_REPLICAS
from streamlet.counted import counted
from streamlet.errors import MissingTopicError, RefusedError
from streamlet.records import TYPE_NAMES, WINDOWED_NAMES
from streamlet.tools.command import Common, command
from streamlet.tools.output import table
from streamlet.tools.settings import key_values

if TYPE_CHECKING:
    from streamlet.kafka.ports import Admin

#: librdkafka takes no more.
_MOST_PARTITIONS = 100_000

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
KEY_TYPES = f"Type of the keys: {TYPE_NAMES}; in windows {WINDOWED_NAMES}."
KeyType = Annotated[str, typer.Option(metavar="T", help=KEY_TYPES)]
ValueType = Annotated[str, typer.Option(metavar="T", help=f"Type of the values: {TYPE_NAMES}.")]


def known_topic(admin: Admin, name: str, operation: str = "READ") -> int:
    """The number of partitions of a topic, which is wanted to read, or for another operation.

    Raises:
        MissingTopicError: there is no such topic; the message names those that are called alike.
    """
    topics = admin.topics()
    if name not in topics:
        alike = get_close_matches(name, [one for one, info in topics.items() if not info.internal])
        hint = f", did you mean {' or '.join(alike)}?" if alike else ""
        raise MissingTopicError(
            f"there is no topic {name}{hint} (streamlet topics create {name} makes it, "
            "streamlet topics list shows all)",
            hidden=[name],
            operation=operation,
        )
    return topics[name].partitions


@command("topics create")
def create(
    common: Common,
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Topics to create.")],
    partitions: Annotated[
        int, typer.Option(min=1, max=_MOST_PARTITIONS, help="Partitions of each.")
    ] = 1,
    replication: Annotated[
        int,
        typer.Option(
            min=-1,
            max=MOST_REPLICAS,
            help="Replicas of each partition; -1 is the broker's default.",
        ),
    ] = -1,
    topic_config: Annotated[
        list[str] | None,
        typer.Option("--topic-config", "-c", metavar="KEY=VALUE", help="A setting of the topics."),
    ] = None,
) -> None:
    """Create topics; those that are there already with as many partitions are left alone."""
    from streamlet.kafka.ports import NewTopic
    from streamlet.topology.names import check_topic_name

    names = list(dict.fromkeys(names))
    for name in names:
        check_topic_name(name, "topics create")
    config = tuple(sorted(key_values(topic_config or [], "--topic-config").items()))
    with closing(common.admin()) as admin:
        there = admin.topics()
        for name in names:
            if name in there and there[name].partitions != partitions:
                raise RefusedError(
                    f"topic {name} is there with "
                    f"{counted(there[name].partitions, 'partition')}, "
                    f"not {partitions}"
                )
        missing = [name for name in names if name not in there]
        admin.create_topics([NewTopic(name, partitions, replication, config) for name in missing])
    common.output.answer(
        {
            "topics": [
                {"name": name, "partitions": partitions, "created": name in missing}
                for name in names
            ]
        },
        "\n".join(f"{'created' if n in missing else 'already there'}: {n}" for n in names),
    )


@command("topics list")
def list_(
    common: Common,
    internal: Annotated[
        bool,
        typer.Option(
            "--internal", help="Also topics that Kafka, or an application, keeps for itself."
        ),
    ] = False,
) -> None:
    """List topics and how many partitions each has."""
    from streamlet.control.topic import is_control_topic

    with closing(common.admin()) as admin:
        known = [
            attrs.evolve(topic, internal=topic.internal or is_control_topic(topic.name))
            for topic in admin.topics().values()
        ]
    found = [topic for topic in known if internal or not topic.internal]
    documents = [
        {"name": t.name, "partitions": t.partitions, "internal": t.internal} for t in found
    ]
    rows = [(topic.name, topic.partitions) for topic in found]
    common.output.answer({"topics": documents}, table("TOPIC", "PARTITIONS", rows=rows))
