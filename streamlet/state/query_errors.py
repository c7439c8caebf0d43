"""The errors of queries of stores, with the names that Kafka Streams has for them."""

from __future__ import annotations

from typing import Any

from streamlet.errors import NotFoundError, StreamletError, TimedOutError


class InvalidStateStoreError(StreamletError):
    """A store cannot be queried now; the message says what to do."""


class StreamsNotStartedError(InvalidStateStoreError):
    """No run of the application is under way in this process."""


class StreamsRebalancingError(InvalidStateStoreError):
    """The task of a store is on its way up here, or the group is rebalancing; ask again."""

    exit_code = 4
    passing = True  # it ends by itself


class StateStoreMigratedError(InvalidStateStoreError):
    """The task of a store is, or is about to be, with another instance."""

    exit_code = 4
    passing = True  # the new owner answers


class KeyPlaceUnknownError(InvalidStateStoreError):
    """The partition of a key is not known yet: too few keys are here; ask again, or name it."""

    exit_code = 4
    passing = True  # it ends as keys come


class UnknownStateStoreError(InvalidStateStoreError, NotFoundError):
    """The application has no store of this name."""

    exit_code = 3


class InvalidStateStorePartitionError(InvalidStateStoreError):
    """No task has this partition of a store."""

    exit_code = 2


class NotUpToBoundError(InvalidStateStoreError, TimedOutError):
    """The state did not get as far as a query asked for in its time."""

    exit_code = 4
    passing = True  # it goes on


class QueryRefusedError(InvalidStateStoreError):
    """A query that is too large, or one too many at a time."""

    exit_code = 5


class InvalidQueryError(InvalidStateStoreError):
    """A query over HTTP that cannot be read, or that its store has no answer to."""

    exit_code = 2


class KeyNotFoundError(InvalidStateStoreError, NotFoundError):
    """The store has no such key.

    ``position`` and ``staleness_ms`` are those of the answer, as it has them; None: it has none.
    """

    exit_code = 3
    position: Any = None
    staleness_ms: Any = None


class UnauthorizedError(InvalidStateStoreError):
    """A query over HTTP without the token that the server asks for."""

    exit_code = 5
