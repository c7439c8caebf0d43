"""The tables of settings as pages for people: ``python -m streamlet.config.page`` writes them."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from streamlet.config.kafka_streams import CLIENT_WIDE, ELSEWHERE
from streamlet.config.sources import variable
from streamlet.config.table import rows
from streamlet.config.topic_properties import DECIDED, TOPIC_PROPERTIES

_DOCS = Path(__file__).parents[2] / "docs"
_MADE = "<!-- Made by `python -m streamlet.config.page`; change the tables there. -->"
_HEAD = """\
# Settings

{made}

A setting has a dotted key, as in Kafka Streams where it has the setting. It can be given in five
places; from strong to weak:

1. `--set key=value` on the command line,
2. a variable of the environment, `{example}` for `num.standby.replicas`,
3. a properties file, `--config FILE`,
4. the code, `App("…", config={{"num.standby.replicas": 1}})`,
5. the default.

The operator of an application thus has the last word over its author. Wrong keys and values are
reported all at once, each with the place it was found in.

A duration is whole milliseconds, text with a unit (`500ms`, `30s`, `10m`, `1h`, `2d`) or, in
Python, a `timedelta`. A size is bytes or text with a unit (`64 MiB`, `1GB`).

`consumer.isolation.level=read_committed` leaves out records of transactions that were aborted, and
waits for those that are open; by default all records count. It goes for inputs, tables and global
tables, on instances, in `Consumer` and on Spark.

Keys that begin with `consumer.`, `producer.` or `admin.` go to those clients without the prefix, in
librdkafka's words, except for those streamlet decides itself. A key that librdkafka does not know
is reported with the other wrong ones. `security.protocol`, `sasl.…` and `ssl.…` are given once and
go to all clients. `main.consumer.` is for the consumer of a worker's inputs, `restore.consumer.`
for those that read changelogs, `global.consumer.` for that of global tables; each also has what
`consumer.` gives.

Keys that begin with `topic.` are settings of internal topics, see
[Settings of internal topics](#settings-of-internal-topics). Kafka Streams' settings of its clients,
and what each of its settings is here that is not on this page:
[Kafka Streams' settings](configuration-kafka-streams.md).
"""

_TOPICS = """
## Settings of internal topics

`topic.max.message.bytes` is for all repartition topics and changelogs, and
`topic.NAME.max.message.bytes` for the topic of this name, which `streamlet topics list` shows. A
variable of the environment cannot name one topic. The settings are applied when a topic is created,
by `streamlet reset` too. A start warns where a topic has another value, and `kafka-configs.sh`
changes it.

Records of more than 1 MB need `producer.message.max.bytes` and `topic.max.message.bytes`, and the
output topics need their own `max.message.bytes`. Consumers read records of any size.

| key | value |
|---|---|
{given}
streamlet decides the other settings of these topics, and refuses them:

| key | why |
|---|---|
{decided}\
"""

_STREAMS = """\
# Kafka Streams' settings

{made}

All other settings: [configuration](configuration.md).

## Settings of all clients

Kafka Streams' settings of its clients are given once, without a prefix, and go to consumers,
producers and admin clients. What is given with a client's prefix outranks them there.

| key | value | in librdkafka |
|---|---|---|
{wide}
## Other settings of Kafka Streams

Those of Kafka Streams 4.1, those before and after, and those of serializers with a schema
registry, that are no setting here by the same key.
They are refused with this sentence:

| key | here |
|---|---|
{elsewhere}\
"""


def pages() -> dict[Path, str]:
    """The file of each page, and its whole text in Markdown."""
    return {
        _DOCS / "configuration.md": _settings(),
        _DOCS / "configuration-kafka-streams.md": _kafka_streams(),
    }


def _settings() -> str:
    parts = [_HEAD.format(made=_MADE, example=variable("num.standby.replicas"))]
    for group, members in groupby(rows().items(), key=lambda item: item[1].group):
        parts.append(
            f"\n## {group.capitalize()}\n\n| key | value | default | |\n|---|---|---|---|\n"
        )
        parts.extend(
            f"| `{key}` | {row.kind.description} | {row.shown} | {row.doc} |\n"
            for key, row in members
        )
    given = (
        f"| `topic.{name}` | {kind.description} |\n" for name, kind in TOPIC_PROPERTIES.items()
    )
    decided = (f"| `topic.{name}` | {why} |\n" for name, why in DECIDED.items())
    parts.append(_TOPICS.format(given="".join(given), decided="".join(decided)))
    return "".join(parts)


def _kafka_streams() -> str:
    wide = (
        f"| `{key}` | {one.kind.description} | `{one.name or key}` |\n"
        for key, one in CLIENT_WIDE.items()
    )
    there = (f"| `{key}` | {answer} |\n" for key, answer in ELSEWHERE.items())
    return _STREAMS.format(made=_MADE, wide="".join(wide), elsewhere="".join(there))


if __name__ == "__main__":
    for file, text in pages().items():
        file.write_text(text, "utf-8")
