"""The table of settings as a page for people: ``python -m streamlet.config.page`` prints it."""

from __future__ import annotations

from itertools import groupby

from streamlet.config.sources import variable
from streamlet.config.table import rows
from streamlet.config.topic_properties import DECIDED, TOPIC_PROPERTIES

_HEAD = """\
# Settings

<!-- Made by `python -m streamlet.config.page > docs/configuration.md`; change the table there. -->

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
go to all clients.

Keys that begin with `topic.` are settings of internal topics, see
[Settings of internal topics](#settings-of-internal-topics).
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


def page() -> str:
    """The whole page, in Markdown."""
    parts = [_HEAD.format(example=variable("num.standby.replicas"))]
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


if __name__ == "__main__":
    print(page(), end="")
