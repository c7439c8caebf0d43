"""Errors that end a worker: the user's handler is asked whether anything goes on.

Kafka Streams' ``StreamsUncaughtExceptionHandler``. An answer concerns the worker, its instance, or
every instance of the application; the latter read it in the control topic.
"""

from __future__ import annotations

import attrs

from streamlet.clock import Clock
from streamlet.control.values import Shutdown
from streamlet.errors import (
    FINAL_CODES,
    ApplicationShutdownError,
    StreamletError,
    UncaughtHandlerError,
    error_text,
)
from streamlet.lazy_results import refuse_promise
from streamlet.logs import get_logger
from streamlet.processing.policy import (
    UNCAUGHT_EXPECTED,
    UncaughtAnswer,
    UncaughtHandler,
    UncaughtRule,
    uncaught_answer,
)
from streamlet.runtime.control_link import ControlLink
from streamlet.user_code import shown

log = get_logger(__name__)

#: How long the announcement of a shutdown may take, ms.
ANNOUNCE_MS = 10_000

#: How much of an error's text the announcement has, characters.
_LONGEST = 1_000


@attrs.define(eq=False)
class UncaughtErrors:
    """The errors that end one worker, and shutdowns that other instances ask for.

    Args:
        rule: the answer, or the function that gives one; None: as ever, without being asked.
        link: the worker's end of the control topic; None in tests.
        clock: the time.
    """

    _rule: UncaughtRule | None
    _link: ControlLink | None
    _clock: Clock
    #: The answer to the error that ended the worker; None: there was no question.
    answer: UncaughtAnswer | None = attrs.field(default=None, init=False)

    @property
    def stops(self) -> bool:
        """True if the application is to shut down everywhere."""
        return self._link is not None and self._link.shutdown is not None

    def check(self) -> None:
        """Raise in a stopped worker if the whole application is to shut down.

        Raises:
            ApplicationShutdownError: it is.
        """
        found = None if self._link is None else self._link.shutdown
        if found is not None:
            raise _shut_down(found)

    def take(self, error: BaseException) -> None:
        """Ask about the error that ends the worker, which has left its group.

        Errors that pass by themselves (a broker is away) and those that no restart mends are no
        question.

        Raises:
            ApplicationShutdownError: the answer shuts the application down; the others know.
            UncaughtHandlerError: the handler failed, or gave no answer; the instance ends.
        """
        if self._rule is None or not _is_question(error):
            return
        self.answer = "shutdown_client"  # also if the handler fails
        self.answer = self._rule if isinstance(self._rule, str) else _asked(self._rule, error)
        log.warning("the answer of uncaught_handler is %s: %s", self.answer, error_text(error))
        if self.answer == "shutdown_application":
            raise _shut_down(self._announced(error)) from error

    def _announced(self, error: BaseException) -> Shutdown:
        """Announce the shutdown to all instances, unless another one did."""
        link = self._link
        if link is None:
            return Shutdown("", "this instance", self._clock.wall_ms(), error_text(error))
        if link.shutdown is not None:
            return link.shutdown
        reason = error_text(error)[:_LONGEST]
        entry = Shutdown(link.instance, link.name, self._clock.wall_ms(), reason)
        if not link.announce(entry, ANNOUNCE_MS):
            log.error(
                "the control topic cannot be written: only this instance shuts down, the others "
                "do when they meet the error"
            )
        return entry


def _is_question(error: BaseException) -> bool:
    if not isinstance(error, Exception):
        return False  # a second Ctrl-C
    if isinstance(error, StreamletError):
        return not error.passing and error.exit_code not in FINAL_CODES
    return True


def _asked(handler: UncaughtHandler, error: BaseException) -> UncaughtAnswer:
    try:
        given = handler(error)
        answer = uncaught_answer(given)
        if answer is None:
            refuse_promise(given)
            raise TypeError(f"expected {UNCAUGHT_EXPECTED}, got {shown(given)}")
        return answer
    except KeyboardInterrupt:
        raise
    except BaseException as failure:
        raise UncaughtHandlerError(
            f"uncaught_handler failed ({error_text(failure)}), which was asked about: "
            f"{error_text(error)}"
        ) from failure


def _shut_down(by: Shutdown) -> ApplicationShutdownError:
    return ApplicationShutdownError(
        f"the application shuts down everywhere, as uncaught_handler of {by.name} answered to: "
        f"{by.reason}"
    )
