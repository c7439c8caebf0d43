"""``streamlet dead-letters``: records that an application left out, shown, given back, skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import typer

from streamlet.counted import counted
from streamlet.errors import ConfigError
from streamlet.tools.command import Common, command
from streamlet.tools.output import table
from streamlet.tools.prompt import StopAfterConsent, Yes, confirm
from streamlet.tools.topics import KeyType, ValueType
from streamlet.visible import visible_line

if TYPE_CHECKING:
    from streamlet.letters.group import LetterGroup
    from streamlet.letters.letter import Letter, LetterFilter
    from streamlet.letters.replay import DeadLetters, ReplayResult

LettersTopic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic of dead letters.")]
Limit = Annotated[int | None, typer.Option(metavar="N", min=1, help="So many letters at most.")]
WithHandled = Annotated[
    bool, typer.Option("--handled", help="Also letters that were replayed or skipped.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count.")]
#: Groups of letters that a list names.
_MOST_GROUPS = 10_000


@attrs.frozen
class Choice:
    """The options that choose letters."""

    application: Annotated[
        str | None, typer.Option(metavar="APP", help="Only of this application.")
    ] = None
    source: Annotated[
        str | None, typer.Option(metavar="T", help="Only of records from this topic.")
    ] = None
    operator: Annotated[
        str | None, typer.Option(metavar="NODE", help="Only of records that this node failed on.")
    ] = None
    error: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Only of this type of error: ValueError.")
    ] = None
    partition: Annotated[
        int | None, typer.Option(metavar="P", min=0, help="Only in this partition of TOPIC.")
    ] = None
    offset: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Only the letter at this offset; with --partition."),
    ] = None
    since: Annotated[
        str | None, typer.Option(metavar="DATETIME", help="Only of records from this time on.")
    ] = None
    until: Annotated[
        str | None, typer.Option(metavar="DATETIME", help="Only of records before this time.")
    ] = None

    def chosen(self) -> LetterFilter:
        """The filter that they make.

        Raises:
            ConfigError: they cannot be.
        """
        from streamlet.letters.letter import LetterFilter

        if self.offset is not None and self.partition is None:
            raise ConfigError(["--offset goes with --partition"])
        words = {
            "application": self.application,
            "topic": self.source,
            "operator": self.operator,
            "error": self.error,
        }
        given = {name: word for name, word in words.items() if word is not None}
        times = (_time(self.since, "--since"), _time(self.until, "--until"))
        return LetterFilter(given, self.partition, self.offset, *times)


def _time(text: str | None, option: str) -> int | None:
    from streamlet.reset.start import StartPosition

    return None if text is None else StartPosition.of(text, option).at_ms


@command("dead-letters list")
def list_(
    common: Common, topic: LettersTopic, choice: Choice, handled: WithHandled = False
) -> None:
    """Count the dead letters of a topic, by application, source, operator and error.

    Those that were replayed or skipped are left out, unless --handled is given.
    """
    chosen = choice.chosen()
    counts: Counter[tuple[str, ...]] = Counter()
    with _opened(common, topic) as (found, _):
        for letter, state in found.read(chosen, every=handled):
            words = (*(letter.detail(name) for name in _GROUPED), state)
            if words in counts or len(counts) < _MOST_GROUPS:
                counts[words] += 1
    rows = [(*words, count) for words, count in counts.most_common()]
    names = (*_GROUPED, "state", "letters")
    common.output.answer(
        {"topic": topic, "groups": [dict(zip(names, row, strict=True)) for row in rows]},
        table(*map(str.upper, names), rows=rows) if rows else f"no dead letter in {topic}",
    )


_GROUPED = ("application", "topic", "operator", "error")


@command("dead-letters show")
def show(
    common: Common,
    topic: LettersTopic,
    choice: Choice,
    key: KeyType = "str",
    value: ValueType = "str",
    limit: Limit = 20,
    handled: WithHandled = False,
) -> None:
    """Print dead letters: each record that failed, where it came from, and why it is here.

    A key or value that is not of the type given is shown in base64.
    """
    from streamlet.records.types import DataType

    kinds = DataType.of(key, "--key"), DataType.of(value, "--value")
    chosen, shown = choice.chosen(), list[dict[str, Any]]()
    with _opened(common, topic) as (found, _):
        for letter, state in found.read(chosen, every=handled):
            shown.append(_document(letter, state, kinds))
            if len(shown) == limit:
                break
    lines = [line for one in shown for line in _lines(one)]
    common.output.answer(
        {"topic": topic, "letters": shown}, "\n".join(lines) or f"no dead letter in {topic}"
    )


@command("dead-letters replay")
def replay(
    common: Common,
    topic: LettersTopic,
    choice: Choice,
    to: Annotated[
        str | None,
        typer.Option(metavar="T", help="To this topic, in place of those they came from."),
    ] = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Give the records of dead letters back to the topics they came from, each once.

    A record gets its key, value, time, headers and partition back, and a header
    replayed-from that names its letter. The letters stay in their topic; a group,
    TOPIC-streamlet-letters, notes which are dealt with. A replay that is killed
    repeats none: the next one looks which records it had written.

    Records of repartition topics, which only the application writes, can be given
    to another topic (--to).

    Exit 3: no such topic. 5: refused, another replay is running, or needs --yes. 130:
    Ctrl-C before it began; later it ends with what was given back.
    """
    from streamlet.kafka.client import KafkaSink

    chosen = choice.chosen()
    with (
        StopAfterConsent(lambda: "nothing was replayed") as stop,
        _opened(common, topic) as (found, group),
    ):
        plan = found.plan(chosen, to=to, limit=limit)
        if dry_run or not (plan.count or found.recovers):
            _answer(common, topic, plan, done=False)
            return
        if not yes:
            common.output.notes(_view(topic, plan, done=False))
            confirm(
                common.output, [f"replay {counted(plan.count, 'letter')}?"], "nothing was replayed"
            )
        stop.agree()
        config = common.client_config("producer")
        with _alone(found, group):
            sink = KafkaSink(common.bootstrap_servers, config, name="streamlet-letters")
            with closing(sink):
                stopped = stop.stopped.is_set
                result = found.replay(chosen, sink, to=to, limit=limit, stopped=stopped)
    _answer(common, topic, result, done=True)


@command("dead-letters skip")
def skip(
    common: Common,
    topic: LettersTopic,
    choice: Choice,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Take dead letters off the list without giving their records back.

    They stay in their topic; --handled of list and show has them.

    Exit 3: no such topic. 5: refused, a replay is running, or needs --yes. 130:
    Ctrl-C before it began.
    """
    chosen = choice.chosen()
    with (
        StopAfterConsent(lambda: "nothing was skipped") as stop,
        _opened(common, topic) as (found, group),
    ):
        count = sum(1 for _ in found.read(chosen))
        count = count if limit is None else min(count, limit)
        if not (dry_run or yes):
            confirm(
                common.output,
                [f"skip {counted(count, 'letter')} of {topic}?"],
                "nothing was skipped",
            )
        if not dry_run:
            stop.agree()
            with _alone(found, group):
                count = found.skip(chosen, limit)
    text = f"{_letters(count, not dry_run)} skipped"
    common.output.answer({"topic": topic, "skipped": count, "done": not dry_run}, text)


@contextmanager
def _alone(found: DeadLetters, group: LetterGroup) -> Iterator[None]:
    """Hold the group in the block, which deals with letters as they are then."""
    group.join()
    try:
        found.open()
        yield
    finally:
        group.leave()


@contextmanager
def _opened(common: Common, topic: str) -> Iterator[tuple[DeadLetters, LetterGroup]]:
    """The letters of a topic, and their group."""
    from streamlet.clock import SystemClock
    from streamlet.coordinator.group_client import group_client
    from streamlet.kafka.client import KafkaSource
    from streamlet.letters.group import LetterGroup
    from streamlet.letters.replay import DeadLetters

    clock, settings = SystemClock(), common.with_servers().load()
    admin = common.admin()

    def source() -> KafkaSource:
        config = {**common.client_config("consumer"), "isolation.level": "read_uncommitted"}
        return KafkaSource(common.bootstrap_servers, config, headers=True, name="streamlet-letters")

    with group_client(settings, "streamlet-letters") as transport:
        group = LetterGroup(topic, transport, clock)
        found = DeadLetters(topic, admin, source, group, clock)
        found.open()
        yield found, group


def _document(letter: Letter, state: str, kinds: tuple[Any, Any]) -> dict[str, Any]:
    from streamlet.records.shown import shown_headers

    key, key_error = kinds[0].decode(letter.key)
    value, value_error = kinds[1].decode(letter.value)
    document = {
        "partition": letter.partition.partition,
        "offset": letter.offset,
        "state": state,
        "timestamp": letter.timestamp,
        "key": key,
        "value": value,
        "headers": shown_headers(letter.headers)[0],
        "reason": dict(letter.reason),
    }
    errors = [one for one in (key_error, value_error) if one is not None]
    return {**document, "undecoded": "; ".join(errors)} if errors else document


def _lines(one: dict[str, Any]) -> tuple[str, str]:
    """A letter for people, two lines: where it came from and why it is here, and its record."""
    reason = one["reason"]
    place = f"{reason.get('topic')}-{reason.get('partition')}@{reason.get('offset')}"
    why = f"{reason.get('operator')}  {reason.get('error')}: {reason.get('message')}"
    head = f"{one['partition']}/{one['offset']}  {one['state']}  {place}  {why}"
    return visible_line(
        head
    ), f"    {visible_line(str(one['key']))}\t{visible_line(str(one['value']))}"


def _answer(common: Common, topic: str, result: ReplayResult, *, done: bool) -> None:
    document = {
        "topic": topic,
        "replayed": dict(result.topics),
        "unfit": dict(result.unfit),
        "done": done,
    }
    common.output.answer(document, _view(topic, result, done=done))


def _letters(number: int, done: bool) -> str:
    if done:
        return counted(number, "letter was", "letters were")
    return f"{counted(number, 'letter')} would be"


def _view(topic: str, result: ReplayResult, *, done: bool) -> str:
    lines = [f"{_letters(count, done)} replayed to {name}" for name, count in result.topics.items()]
    lines += [f"{count} cannot be: {reason}" for reason, count in result.unfit.items()]
    return "\n".join(lines) or f"no letter of {topic} is to be replayed"
