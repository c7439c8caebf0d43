"""The commit that an active period of a task begins at, as its edges see it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from secrets import token_bytes

import attrs

from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.coordinator.metadata_fields import KEY_BYTES
from streamlet.processing.edges.held_writer import Period
from streamlet.state.log_numbers import number_of
from streamlet.types import NO_STATE, StateNumber, TaskId


@attrs.frozen
class Start:
    """The start of an active period.

    Attributes:
        task: which.
        epoch: of the period.
        commit: the one that it begins at; None: there is none.
        contained: what that contains.
        now_s: the time, s since the epoch.
        key: of the task, if the commit has none.
    """

    task: TaskId
    epoch: int
    commit: CommitMetadata | None
    contained: StateNumber
    now_s: int
    key: bytes = attrs.field(factory=partial(token_bytes, KEY_BYTES), repr=False)

    @property
    def signs(self) -> bool:
        """True if the commit says that its task wrote records that wait for its commits."""
        return self.commit is not None and bool(self.commit.born and self.commit.key)

    def bearing(self, topics: Iterable[str]) -> frozenset[str]:
        """The topics of these to which the task writes origins, as its commit says."""
        named = frozenset() if self.commit is None else self.commit.origins
        return frozenset(topic for topic in topics if number_of(topic) in named)

    @property
    def period(self) -> Period:
        """The period, which goes on from the commit if its epochs count on."""
        commit = self.commit
        if commit is None or not self.signs:
            return Period.of(self.task, self.now_s, self.epoch, NO_STATE, self.key)
        return Period.of(self.task, commit.born, self.epoch, self.contained, commit.key)
