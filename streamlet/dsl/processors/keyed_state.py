"""The state of one key as a state function has it: a dict, and timers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Generic, TypeVar

import attrs

from streamlet.absent import explains_misuse
from streamlet.dsl.graph.durations import Duration, milliseconds
from streamlet.dsl.processors.record import checked_time
from streamlet.errors import StreamletError, WrongTypeError

K = TypeVar("K")

_ENDED = "ended"


def _ended() -> dict[str, Any]:
    raise StreamletError(
        "a State is used after the call that it was given to: it is kept when the call ends, and "
        "another call gets another one; keep a copy, dict(state), where one is needed"
    )


@explains_misuse
@attrs.frozen
class Timer(Generic[K]):
    """A timer that is due: its key, its name and its time, ms since the epoch."""

    key: K
    name: str
    time: int


@explains_misuse
class State(MutableMapping[str, Any], Generic[K]):
    """The dict of one key, and its timers, during one call of a state function.

    What the function has changed when it returns is kept; when it fails, nothing is. An empty dict
    takes no row. The values are what the type of the state can write: by default all that JSON
    knows, which reads a tuple back as a list.

    Made by ``process`` and ``process_values``.
    """

    __slots__ = (
        "_after",
        "_call",
        "_data",
        "_now",
        "_read",
        "_timer_at",
        "before",
        "key",
        "timers",
    )

    _call: str
    _read: Callable[[], dict[str, Any]]
    _timer_at: Callable[[str], int | None]
    _now: int
    _after: int | None
    _data: dict[str, Any] | None
    #: The bytes of the dict when it was read.
    before: bytes
    #: Timers that the call sets (a time) or cancels (None).
    timers: dict[str, int | None]
    #: The key of the record or of the timer.
    key: K

    def __init__(self) -> None:
        raise WrongTypeError(
            "State is not made by hand: process() and process_values() give it to a function "
            "(record, state); a test may call that function with a dict"
        )

    @classmethod
    def of(
        cls,
        call: str,
        key: K,
        read: Callable[[], dict[str, Any]],
        timer_at: Callable[[str], int | None],
        now: int,
        after: int | None,
    ) -> State[K]:
        """The state of a key, for one call.

        Args:
            call: why it has no timers; empty if it has.
            key: of the record or of the timer.
            read: reads its dict.
            timer_at: the time of a timer that waits.
            now: the time of the call, ms.
            after: the time of the timer that is called; None for a record.
        """
        self = cls.__new__(cls)
        self._call, self._read, self._timer_at = call, read, timer_at
        self._now, self._after = now, after
        self._data, self.before, self.timers, self.key = None, b"", {}, key
        return self

    def end(self) -> None:
        """End the call: what is made of the state from now on would be lost, and is refused."""
        self._data, self._read, self._call = None, _ended, _ENDED

    @property
    def data(self) -> dict[str, Any]:
        """The dict itself."""
        if self._data is None:
            self._data = self._read()
        return self._data

    def changed(self) -> dict[str, Any] | None:
        """The dict as the call has left it; None if it was not looked at."""
        return self._data

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.data[name] = value

    def __delitem__(self, name: str) -> None:
        del self.data[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"State({self.key!r}{'' if self._read is _ended else f', {self.data!r}'})"

    def timer(
        self, *, at: int | None = None, after: Duration | None = None, name: str = ""
    ) -> None:
        """Call ``on_timer`` at a time: ``at``, ms since the epoch, or some time ``after`` now.

        By stream time "now" is the time of the record or of the timer, and the call comes before
        the first record whose timestamp is not below that of the timer; a time that stream time
        has passed is due behind the record that sets it. A key has one timer of each name: it takes
        the place of one that waits. Timers are kept over restarts and hand-overs.

        Raises:
            StreamletError: the processor has no ``on_timer``.
            TopologyError: ``after`` is no duration.
            TypeError: ``at`` is no time, or both are given, or neither.
            ValueError: a timer that is due sets one that is not later than itself.
        """
        self._check()
        if (at is None) == (after is None):
            raise TypeError("state.timer(): give at=, in ms since the epoch, or after=")
        if after is not None:
            at = self._now + milliseconds("state.timer(): after", after)
        at = checked_time(at, "state.timer(at=…)")
        if self._after is not None and at <= self._after:
            raise ValueError(
                f"state.timer(at={at}): the timer that is due is of {self._after}, and one that "
                "it sets must be later"
            )
        self.timers[name] = at

    def cancel_timer(self, name: str = "") -> None:
        """Remove the timer of a name, if there is one.

        Raises:
            StreamletError: the processor has no ``on_timer``.
        """
        self._check()
        self.timers[name] = None

    def timer_time(self, name: str = "") -> int | None:
        """The time of the timer of a name, ms since the epoch; None: there is none.

        Raises:
            StreamletError: the processor has no ``on_timer``.
        """
        self._check()
        return self.timers[name] if name in self.timers else self._timer_at(name)

    def _check(self) -> None:
        if self._call == _ENDED:
            _ended()
        if self._call:
            raise StreamletError(
                f"state.timer(): {self._call} has no on_timer= to call when the timer is due"
            )
