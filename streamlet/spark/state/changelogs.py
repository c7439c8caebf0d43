"""State of tasks on Spark as records of the changelogs that native tasks restore from."""

from __future__ import annotations

from streamlet.processing.outputs import Output
from streamlet.state.changelog import encode_column
from streamlet.state.drained import Drained
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import StateNumber

#: All records of a backfill belong to one commit, the first of its epoch.
NUMBER = 1


def state_number(epoch: int) -> StateNumber:
    """The number that all changelog records of a backfill bear."""
    return StateNumber(epoch, NUMBER)


def changelog_outputs(
    subtopology: Subtopology, partition: int, drained: Drained, epoch: int, now_ms: int
) -> list[Output]:
    """The drained entries of a task's stores as records of their changelogs.

    Those of stores without a changelog, and of tables that are read from their own, are left out.

    Args:
        subtopology: the task's subtopology.
        partition: of the task, and so of its changelogs.
        drained: of its stores.
        epoch: of the backfill.
        now_ms: time of the records, wall-clock; nothing goes by it.
    """
    found = []
    for store, columns in sorted(drained.columns.items()):
        topic = subtopology.changelog_topic(store)
        if topic not in subtopology.changelog_topics:
            continue
        values, headers = encode_column(state_number(epoch), columns.values)
        count = len(columns.keys)
        times, places = [now_ms] * count, [partition] * count
        found.append(Output(topic, list(columns.keys), values, times, places, headers))
    return found
