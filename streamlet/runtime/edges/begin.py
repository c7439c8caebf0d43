"""The notes on its inputs that a task begins with: those of its commit, or new ones.

A position that is the commit's own goes on with the commit's note. One that was set from outside,
or by ``state.mismatch.policy``, begins a new incarnation: the same offsets may now stand for
records that count once more. Where records are skipped, edges go on behind the gap.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamlet.group.input_notes import InputNote
from streamlet.runtime.targets import Target
from streamlet.types import TopicPartition


def notes_at_start(
    target: Target, starts: Mapping[TopicPartition, int], wall_ms: int
) -> dict[TopicPartition, InputNote]:
    """The note of each input of a task that begins.

    Args:
        target: what it begins with.
        starts: first offset to read of each input.
        wall_ms: the time, ms since the epoch; the next incarnation is made of it.
    """
    return {
        tp: _note(target, tp, committed, starts[tp], wall_ms // 1000)
        for tp, committed in (target.committed or target.offsets).items()
    }


def _note(
    target: Target, tp: TopicPartition, committed: int, start: int, seconds: int
) -> InputNote:
    known = target.notes.get(tp, InputNote())
    if tp in target.moved or (tp in target.unmarked and committed >= 0):
        return InputNote(max(known.incarnation + 1, seconds), open=True)
    if committed < 0:
        return InputNote(open=start > 0)
    return known if start == committed else known.skipped()
