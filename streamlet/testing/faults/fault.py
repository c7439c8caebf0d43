"""Faults: what happens to a request, and to which ones."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Collection
from typing import TypedDict

import attrs

from streamlet.absent import explains_misuse
from streamlet.errors import ConfigError, TimedOutError
from streamlet.testing.faults.wire import APIS, ProxiedRequest


@attrs.frozen
class Refuse:
    """The client gets an answer with this error.

    Attributes:
        code: the error's number in Kafka's protocol.
    """

    code: int


@attrs.frozen
class Delay:
    """The request, or with ``after`` its answer, arrives so much later.

    Attributes:
        delay_ms: by how much, ms.
    """

    delay_ms: int


@attrs.frozen
class Hold:
    """The request, or with ``after`` its answer, arrives once ``Fault.release`` is called."""


@attrs.frozen
class Disconnect:
    """The connection breaks."""


@attrs.frozen
class BlackHole:
    """The connection stays open, and nothing comes through it any more in either direction."""


@attrs.frozen
class AnswerWith:
    """The client gets an answer that a function makes.

    Attributes:
        made_by: gets the request, returns the answer's frame (``ProxiedRequest.written``).
        hangs_up: the connection ends behind it.
    """

    made_by: Callable[[ProxiedRequest], bytes]
    hangs_up: bool = False


@attrs.frozen
class Rewrite:
    """The broker gets other bytes.

    Attributes:
        made_by: gets the request, returns what is sent in its place: frames with their length in
            front, or nothing.
    """

    made_by: Callable[[ProxiedRequest], bytes]


Effect = Refuse | Delay | Hold | Disconnect | BlackHole | AnswerWith | Rewrite


class Which(TypedDict, total=False):
    """The requests that a fault happens to: those for which all of this is true.

    Attributes:
        nth: the first one it may happen to, counted among those that match, from 1 (the default).
        times: how often it happens, 1 by default; None: always.
        probability: how likely it happens to one that matches, 1.0 by default.
        after: the broker gets the request, and the fault happens to its answer. False by default:
            the broker does not get it, or gets it late.
        broker: the node number of the broker.
        client_id: the client's ``client.id``.
        where: a function that says for a request whether it is meant.
    """

    nth: int
    times: int | None
    probability: float
    after: bool
    broker: int
    client_id: str
    where: Callable[[ProxiedRequest], bool]


@explains_misuse
class Fault:
    """A fault that was injected, and how often it has happened.

    Args:
        effect: what happens.
        apis: the kinds of requests; empty: all kinds.
        dice: decides with ``probability``.
        which: see ``Which``.

    Raises:
        ConfigError: a kind of request that the proxy does not know, an argument that ``Which`` does
            not have, or a number out of range.
    """

    def __init__(
        self, effect: Effect, apis: Collection[str], dice: random.Random, which: Which
    ) -> None:
        unknown = sorted(set(apis) - APIS.keys())
        if unknown:
            raise ConfigError([f"no kind of request that is known: {', '.join(unknown)}"])
        strange = sorted(which.keys() - Which.__annotations__.keys())
        if strange:
            known = ", ".join(Which.__annotations__)
            raise ConfigError([f"{', '.join(strange)}: requests are chosen by {known}"])
        self.effect = effect
        self.after = which.get("after", False)
        self._keys = frozenset(APIS[name] for name in apis)
        self._dice = dice
        self._nth = which.get("nth", 1)
        self._times = which.get("times", 1)
        self._probability = which.get("probability", 1.0)
        self._broker = which.get("broker")
        self._client_id = which.get("client_id")
        self._where = which.get("where")
        if self._nth < 1 or not 0 <= self._probability <= 1:
            raise ConfigError(["nth is 1 or more, probability between 0 and 1"])
        self._matched = 0
        self._lifted = False
        self._changed = threading.Condition()
        self._released = False
        self._on_release: list[Callable[[], object]] = []
        #: How often it has happened.
        self.happened = 0
        #: Requests that it happened to and that have an answer or will have none.
        self.ended = 0
        #: How often it happened to a request that names this topic.
        self.topics: Counter[str] = Counter()

    def meets(self, request: ProxiedRequest) -> bool:
        """True if the fault applies to this request, which is counted then."""
        if not self._matches(request):
            return False
        with self._changed:
            if self._lifted or (self._times is not None and self.happened >= self._times):
                return False
            self._matched += 1
            if self._matched < self._nth or self._dice.random() >= self._probability:
                return False
            self.happened += 1
            self.topics.update(request.topics)
            self._changed.notify_all()
            return True

    def _matches(self, request: ProxiedRequest) -> bool:
        if self._keys and request.key not in self._keys:
            return False
        if self._broker is not None and request.broker != self._broker:
            return False
        if self._client_id is not None and request.client_id != self._client_id:
            return False
        return self._where is None or self._where(request)

    def end(self) -> None:
        """Note that a request it happened to is done with."""
        with self._changed:
            self.ended += 1
            self._changed.notify_all()

    def wait(self, times: int = 1, timeout_ms: int = 60_000, *, ended: bool = False) -> None:
        """Wait until it has happened so often.

        Args:
            times: how often.
            timeout_ms: for how long at most, ms.
            ended: wait until those requests are done with: answered, or never to be.

        Raises:
            TimedOutError: it has not.
        """
        with self._changed:
            if not self._changed.wait_for(
                lambda: (self.ended if ended else self.happened) >= times, timeout_ms / 1000
            ):
                found = f"{self.ended} ended" if ended else f"{self.happened} happened"
                raise TimedOutError(f"{self.effect}: {found} of {times} within {timeout_ms} ms")

    def release(self) -> None:
        """Let what ``Hold`` holds go on, and all that comes later."""
        self.lift()
        with self._changed:
            self._released = True
            waiting, self._on_release = self._on_release, []
        for go_on in waiting:
            go_on()

    def on_release(self, go_on: Callable[[], object]) -> None:
        """Call this on release, on the releasing thread; at once if released already."""
        with self._changed:
            if not self._released:
                self._on_release.append(go_on)
                return
        go_on()

    def lift(self) -> None:
        """End the fault."""
        with self._changed:
            self._lifted = True
