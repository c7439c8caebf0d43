"""A commit that the coordinator refuses for good: the error names the topics and Kafka's error."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from streamlet.tasks.commit import _refusal
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


@pytest.mark.parametrize(("code", "gone"), [(3, True), (100, True), (12, False)])
def test_a_refused_commit_is_told_with_topics_and_the_errors_name(code: int, gone: bool) -> None:
    names = {3: "UNKNOWN_TOPIC_OR_PARTITION", 100: "UNKNOWN_TOPIC_ID"}
    parts: Any = [
        Share({TopicPartition("words-b", 0): 1, TopicPartition("words", 0): 2}),
        Share({TopicPartition("words", 1): 3}, ("a", "b", "c")),
    ]
    text = str(_refusal(code, parts))
    name = names.get(code, "OFFSET_METADATA_TOO_LARGE")
    assert text.startswith(f"the group coordinator refused a commit of words, words-b: {name}")
    assert text.endswith("one of them was deleted, perhaps: a start reads the others") == gone
    advice = "raise the brokers' offset.metadata.max.bytes, or use fewer stores in one subtopology"
    assert (f"{advice}: a task here has 3" in text) != gone
