"""Compares the starts and ends of changelogs with those that the last commit tells."""

from __future__ import annotations

from collections.abc import Mapping

from streamlet.group.commit_metadata import CommitMetadata
from streamlet.types import TopicPartition


def whole_from(metadata: CommitMetadata | None) -> Mapping[TopicPartition, int]:
    """The offsets from which on changelogs hold the whole state, of those that may lack older."""
    return {} if metadata is None or metadata.rebuilt is None else metadata.rebuilt.starts


def short_of_commit(
    metadata: CommitMetadata | None,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, str]:
    """The changelogs that do not hold what the commit relies upon, and how that shows."""
    found = {}
    wholes = whole_from(metadata)
    for tp, end in ends.items():
        wanted = 0 if metadata is None else metadata.ends.get(tp, 0)
        whole = wholes.get(tp)
        start = starts.get(tp, 0)
        if end < wanted:
            found[tp] = f"{tp} ends at {end}, the commit was made when it ended at {wanted}"
        elif start > (whole or 0):
            found[tp] = f"{tp} begins at {start}, its records before that are gone"
        elif metadata is not None and metadata.rebuilding and whole is not None:
            found[tp] = f"{tp} lost records, and its state was not yet written again"
    return found
