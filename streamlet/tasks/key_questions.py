"""Asks the group for the keys of tasks whose words to readers are not understood yet.

One request for all of them, on the thread of targets: records go on meanwhile, but those.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future

import attrs

from streamlet.clock import Clock
from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.errors import StreamletError
from streamlet.logs import get_logger
from streamlet.processing.edges.held_records import task_of
from streamlet.processing.edges.writer_keys import WriterKey, WriterKeys
from streamlet.tasks.targets import CommitAnswer, Targets

log = get_logger(__name__)


@attrs.define(eq=False)
class KeyQuestions:
    """Asks one question after the other, as long as keys are wanted.

    Args:
        keys: of the worker.
        targets: asks.
        clock: the time.
    """

    _keys: WriterKeys
    _targets: Targets
    _clock: Clock
    _asked: Collection[int] = ()
    _asked_ms: int = 0
    _answer: CommitAnswer = attrs.field(factory=Future, init=False)

    def step(self) -> None:
        """Take an answer that has come, and ask the next question if there is one."""
        now_ms = self._clock.now_ms()
        if self._asked:
            if self._answer.done():
                self._take()
        elif asked := self._keys.to_ask(now_ms):
            self._asked, self._asked_ms = asked, now_ms
            self._answer = self._targets.commits([task_of(writer) for writer in asked])

    def _take(self) -> None:
        asked, self._asked = self._asked, ()
        try:
            commits = self._answer.result()
        except StreamletError as error:
            if not error.passing:
                raise
            log.debug("not known yet: the keys of %d tasks: %s", len(asked), error)
            self._keys.ask_again(asked)
            return
        found: dict[int, WriterKey | None] = dict.fromkeys(asked)
        for writer in asked:
            task = task_of(writer)
            if task in commits:
                found[writer] = _key_of(commits[task])
        self._keys.answer(found, self._asked_ms)


def _key_of(commit: CommitMetadata | None) -> WriterKey:
    if commit is None or not (commit.born and commit.key):
        return WriterKey()
    return WriterKey(commit.born, commit.key)
