"""A commit that the coordinator refuses for good: the error names the topics and Kafka's error."""

from __future__ import annotations

from typing import Any

import attrs

from streamlet.tasks.commit_share import refusal
from streamlet.types import TopicPartition


@attrs.frozen
class Share:
    """The share of a task in a commit, as far as it is looked at."""

    offsets: dict[TopicPartition, int]
    #: Stands for the task too; its stores.
    changelogs: tuple[str, ...] = ()

    @property
    def active(self) -> Share:
        """The task."""
        return self


def test_a_refused_commit_is_told_with_topics_and_the_errors_name() -> None:
    parts: Any = [
        Share({TopicPartition("words-b", 0): 1, TopicPartition("words", 0): 2}),
        Share({TopicPartition("words", 1): 3}, ("a", "b", "c")),
    ]
    text = str(refusal(12, parts))
    assert text.startswith(
        "the group coordinator refused a commit of words, words-b: OFFSET_METADATA_TOO_LARGE"
    )
    advice = "raise the brokers' offset.metadata.max.bytes, or use fewer stores in one subtopology"
    assert f"{advice}: a task here has 3" in text
