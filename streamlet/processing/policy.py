"""The policy for records that fail: an answer for each stage, or a handler that gives one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast, get_args

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import call_problem, types_checked_inside
from streamlet.bounded import is_topic_name
from streamlet.config.values import duration
from streamlet.errors import (
    ConfigError,
    HandlerError,
    ProcessingError,
    RegistryError,
    StreamletError,
    WrongTypeError,
    error_text,
)
from streamlet.kafka.ports import Headers
from streamlet.lazy_results import never_runs, refuse_promise
from streamlet.retries import Retries
from streamlet.types import TaskId
from streamlet.user_code import Place, printable, raised_at, shown, text_of

#: The stages of a record at which it may fail.
Stage: TypeAlias = Literal["deserialization", "processing", "production"]
#: The answers to a failure.
Action = Literal["fail", "skip", "dead_letter"]
#: The words that decide about a record for good.
FinalWords: TypeAlias = Literal["fail", "skip"] | tuple[str, str]
#: The answer to an error that ends a worker, in Kafka Streams' words.
UncaughtAnswer: TypeAlias = Literal["replace_thread", "shutdown_client", "shutdown_application"]
#: A user's function that is asked about each such error.
UncaughtHandler: TypeAlias = Callable[[BaseException], UncaughtAnswer]
UncaughtRule: TypeAlias = UncaughtAnswer | UncaughtHandler

#: What the names of the headers begin with that give the reason of a dead letter.
_REASON = "streamlet."
#: The names of these headers, and of what they say.
REASONS = {
    f"{_REASON}{name}": name
    for name in ("application", "topic", "partition", "offset", "operator", "error", "message")
}

UNCAUGHT_EXPECTED = '"replace_thread", "shutdown_client" or "shutdown_application"'
_NEVER_RUNS = (
    "its calls do nothing by themselves, since it is an async or a generator function: give one "
    "that returns the answer"
)
#: The arguments of a stage's handler.
_ASKED = "context", "record", "error"
_EXPECTED = '"fail", "skip", ("dead_letter", topic) or streamlet.Retry(...)'


@explains_misuse
@attrs.frozen
class ErrorContext:
    """The place and time of a failure, as Kafka Streams' ``ErrorHandlerContext``.

    Attributes:
        stage: "deserialization", "processing" or "production".
        application: the application's name.
        task: the task that failed; None for a global table, which belongs to none.
        node: the operator, source or sink, as ``streamlet describe`` names it.
        topic: the topic of the input record.
        partition: its partition there.
        offset: its offset there.
        timestamp: the time of the record at this stage, ms since the epoch.
        headers: the headers of the record at this stage; empty where none are read.
        attempt: 1 for the first failure of the record at this node, 2 after one retry.
    """

    stage: Stage
    application: str
    task: TaskId | None
    node: str
    topic: str
    partition: int
    offset: int
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]
    attempt: int


@explains_misuse
@attrs.frozen
class FailedRecord:
    """The record that failed, as it was at that stage.

    Attributes:
        key: bytes at deserialization, else as the node got it; bytes too where the producer
            refuses the record.
        value: likewise.
        topic: the topic that the record was to be written to; None but at production.
    """

    key: Any
    value: Any
    topic: str | None = None


@attrs.frozen
class RecordFailure:
    """A failed record and its error, before the policy has decided.

    ``record`` is None where an operator acts without one (a punctuator, a timer). ``final``: it
    cannot be tried again. ``function`` is where the user's function begins that the operator calls.
    """

    context: ErrorContext
    record: FailedRecord | None
    reason: str
    cause: BaseException | None
    final: bool = False
    function: Place | None = None

    @property
    def raised(self) -> str | None:
        """The error behind the user's line that raised it, or whose result it is about."""
        if self.cause is None:
            return None
        text = error_text(self.cause)
        if raised_at(self.cause) is not None:
            return text
        # What a serde or a store refuses may be of the record itself.
        others = isinstance(self.cause, StreamletError) and type(self.cause) is not WrongTypeError
        return None if self.function is None or others else f"{self.function}: {text}"


@attrs.frozen
class FinalAnswer:
    """The decision about a record that fails.

    ``fail`` stops the task, nothing behind the last commit is kept. ``skip`` counts the record and
    goes on behind it. ``dead_letter`` writes it as it was read to ``topic``, the reason in headers.
    """

    action: Action = "fail"
    topic: str | None = None


@explains_misuse
class Retry:
    """The answer to try a record again, after a pause that doubles with each try.

    Meanwhile its task waits, so that nothing overtakes the record; other tasks, heartbeats and
    commits go on. For a call of ``map_values_async`` only records wait that must not overtake it,
    and commits of its task. Try 1 is the first one, so that ``attempts=5`` calls a function five
    times.

    Args:
        attempts: how often the record is tried in all, 2 to 1,000.
        backoff: the pause before the second try: text such as ``"100ms"``, a ``timedelta``, or ms.
        longest: the longest pause.
        then: the answer to the last failure: "fail", "skip" or ("dead_letter", topic). It decides
            at once where nothing can be tried again: for punctuators, timers and ``timestamp=``.

    Raises:
        ConfigError: one of these cannot be.
    """

    @types_checked_inside
    def __init__(
        self,
        attempts: int = 5,
        *,
        backoff: str | timedelta | int = "100ms",
        longest: str | timedelta | int = "10s",
        then: FinalWords = "fail",
    ) -> None:
        if type(attempts) is not int or not 2 <= attempts <= 1_000:
            raise ConfigError([f"Retry(attempts={shown(attempts)}): expected 2 to 1000"])
        self.attempts = attempts
        self.backoff_ms = _milliseconds("backoff", backoff)
        self.longest_ms = _milliseconds("longest", longest)
        final = answer_of(then)
        if not isinstance(final, FinalAnswer):
            raise ConfigError([f"Retry(then={shown(then)}): expected another answer than to retry"])
        self.then = final

    def __repr__(self) -> str:
        return f"Retry({self.attempts}, then={self.then.action!r})"

    def pause_ms(self, attempt: int) -> int:
        """The pause behind the failure of so many tries."""
        return Retries(self.backoff_ms, self.longest_ms).pause_ms(attempt)


#: The answer of a handler.
Answer: TypeAlias = FinalWords | Retry

#: A user's function that is asked about each failure: ``(context, record, error)``. ``record`` is
#: None where an operator acts without one.
ErrorHandler: TypeAlias = Callable[[ErrorContext, FailedRecord | None, BaseException], Answer]

#: The rule of one stage.
Rule: TypeAlias = FinalAnswer | Retry | ErrorHandler

FAIL = FinalAnswer()


def _milliseconds(name: str, given: str | timedelta | int) -> int:
    try:
        return duration().parse(given)
    except ValueError as error:
        raise ConfigError([f"Retry({name}={shown(given)}): {error}"]) from error


def answer_of(given: object) -> FinalAnswer | Retry | None:
    """Read the words of an answer; None: they are none."""
    match given:
        case FinalAnswer() | Retry():
            return given
        case str() if given in ("fail", "skip"):
            return FinalAnswer(cast(Action, given))
        case (str(word), str(topic)) if word == "dead_letter" and is_topic_name(topic):
            return FinalAnswer("dead_letter", topic)
    return None


def uncaught_answer(given: object) -> UncaughtAnswer | None:
    """Read the word of an answer; None: it is none."""
    known = isinstance(given, str) and given in get_args(UncaughtAnswer)
    return cast(UncaughtAnswer, given) if known else None


@attrs.frozen
class ErrorPolicy:
    """The rules for records that fail, one for each stage.

    ``uncaught`` is the rule for errors that end a worker all the same; None: it is started again.
    """

    deserialization: Rule = FAIL
    processing: Rule = FAIL
    production: Rule = FAIL
    uncaught: UncaughtRule | None = None

    @classmethod
    def of(cls, on_error: object, uncaught: Any = None, **handlers: object) -> ErrorPolicy:
        """Read what a user gives: ``on_error`` for all stages, and ``handlers`` by their stages.

        ``uncaught`` is the rule for errors that end a worker.

        Raises:
            ConfigError: one is neither an answer nor, of a stage, a function.
        """
        problems = []
        default = answer_of(on_error)
        if default is None:
            problems.append(
                f"on_error: expected {_EXPECTED}, not {shown(on_error)}; functions are for "
                "deserialization_handler, processing_handler and production_handler"
            )
        rules: dict[str, Any] = dict.fromkeys(get_args(Stage))
        for stage, given in handlers.items():
            rules[stage] = given if callable(given) else answer_of(given)
            if given is not None and rules[stage] is None:
                problems.append(
                    f"{stage}_handler: expected {_EXPECTED} or a function of (context, record, "
                    f"error) that returns one, not {shown(given)}"
                )
        functions = {**handlers, "uncaught": uncaught}.items()
        problems += [f"{of}_handler: {_NEVER_RUNS}" for of, one in functions if never_runs(one)]
        asked = {**dict.fromkeys(handlers, _ASKED), "uncaught": ("error",)}
        for of, one in functions:
            if callable(one) and (problem := call_problem(one, *asked[of])):
                problems.append(f"{of}_handler: it is called as {problem}")
        if uncaught is not None and not callable(uncaught) and uncaught_answer(uncaught) is None:
            problems.append(
                f"uncaught_handler: expected {UNCAUGHT_EXPECTED} or a function of (error) that "
                f"returns one, not {shown(uncaught)}"
            )
        if problems:
            raise ConfigError(problems)
        assert default is not None
        return cls(**{stage: rule or default for stage, rule in rules.items()}, uncaught=uncaught)

    def with_letters(self, topic: str | None) -> ErrorPolicy:
        """The policy with dead letters where it would fail (KIP-1034); None: as it is."""
        letters = FAIL if topic is None else FinalAnswer("dead_letter", topic)
        read, processed, sent = (letters if rule == FAIL else rule for rule in self.rules)
        return ErrorPolicy(read, processed, sent, self.uncaught)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of the stages."""
        return self.deserialization, self.processing, self.production

    @property
    def asks(self) -> bool:
        """True if a function of the user's decides at some stage, about any topic."""
        return any(callable(rule) for rule in self.rules)

    @property
    def topics(self) -> frozenset[str]:
        """The topics of dead letters, as far as they are known before one is written."""
        finals = (one.then if isinstance(one, Retry) else one for one in self.rules)
        return frozenset(one.topic for one in finals if isinstance(one, FinalAnswer) and one.topic)

    @property
    def may_retry(self) -> bool:
        """True if a record that an operator failed on may be tried again."""
        return isinstance(self.processing, Retry) or callable(self.processing)

    @cached_property  # asked for each batch
    def writes_letters(self) -> bool:
        """True if dead letters may be written."""
        return self.asks or bool(self.topics)

    def decide(self, failure: RecordFailure) -> FinalAnswer | int:
        """The decision about a failure, or the pause before the record is tried again, ms.

        Raises:
            HandlerError: a handler failed, or returned no answer.
            RegistryError: the cause is one, for which no record is to be left out.
        """
        # An exception of the user's may be asked nothing, not even by isinstance().
        cause = failure.cause
        if cause is not None and issubclass(type(cause), RegistryError):
            raise cause
        rule: Rule = getattr(self, failure.context.stage)
        if callable(rule):
            rule = _asked(rule, failure)
        if isinstance(rule, FinalAnswer):
            return rule
        attempt = failure.context.attempt
        if failure.final or attempt >= rule.attempts:
            return rule.then
        return rule.pause_ms(attempt)


def _asked(handler: ErrorHandler, failure: RecordFailure) -> FinalAnswer | Retry:
    """The answer of a user's handler."""
    try:
        given = handler(
            failure.context,
            failure.record,
            RuntimeError() if failure.cause is None else failure.cause,
        )
        answer = answer_of(given)
        if answer is None:
            refuse_promise(given)
            raise TypeError(f"expected {_EXPECTED}, got {shown(given)}")
        return answer
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        context, cause = failure.context, failure.cause
        what = failure.reason if cause is None else f"{failure.reason} ({error_text(cause)})"
        raise HandlerError(
            f"the handler of {context.stage} failed, which was asked about: {what}",
            *(context.topic, context.partition, context.offset, context.node),
            error_text(error),
        ) from error


def error_of(failure: RecordFailure) -> ProcessingError:
    """The error that a failure ends its task with, or that its dead letter names."""
    cause, at = failure.cause, failure.context
    raised = failure.raised
    detail = failure.reason
    if raised is None and cause is not None:
        detail = f"{detail} ({type(cause).__name__}: {text_of(cause)})"
    error = ProcessingError(detail, at.topic, at.partition, at.offset, at.node, raised)
    error.__cause__ = cause
    return error


def reason_headers(
    error: ProcessingError, application: str, headers: Headers | None = None
) -> Headers:
    """Headers of a dead letter: its record's own, then where it came from and why it is here.

    The reason of an earlier letter that was read again is left out.
    """
    cause = error if error.__cause__ is None else error.__cause__
    named = {
        "application": application,
        "topic": error.topic,
        "partition": str(error.partition),
        "offset": str(error.offset),
        "operator": error.operator,
        "error": type(cause).__name__,
        "message": text_of(cause)[:1000],
    }
    reason = {f"{_REASON}{name}": printable(text).encode() for name, text in named.items()}
    own = [header for header in headers or () if header[0] not in reason]
    return [*own, *reason.items()]


def has_reason(headers: Headers | None) -> bool:
    """True if these are the headers of a dead letter."""
    return any(name.startswith(_REASON) for name, _ in headers or ())
