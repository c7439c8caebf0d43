"""Each right that an application needs is taken away in turn, at a broker that asks for rights.

The cases are the lines of the table in ``docs/operations/rights.md``. Each has a user of its own,
who has all rights but one, and an application of its own: so all rules are there before anything
runs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pytest
from click.testing import Result
from confluent_kafka import Producer
from typer.testing import CliRunner

import streamlet as sl
from streamlet.admin.window import ApplicationInfo
from streamlet.config import Settings
from streamlet.errors import FINAL_CODES, StreamletError
from streamlet.hosting.clients import open_window
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.processing.policy import REASONS
from streamlet.reset.backfill import Backfill
from streamlet.rights import Right
from streamlet.tools.main import build
from tests.integration.rights_table import PAGE, rows
from tests.integration.secured import SecuredBroker, secured_broker

pytestmark = pytest.mark.integration

#: What it takes to look into a topic.
LOOKS = ("READ", "DESCRIBE_CONFIGS")
RECORDS = 3
#: With which a record is a dead letter, too, of the first one of its own topic.
LETTER = [(header, {"topic": b"lines"}.get(name, b"0")) for header, name in REASONS.items()]
TIMEOUT_S = 60


def topics(app: str, on: str) -> list[Right]:
    """What the table calls so, of an application, as rights without their operation."""
    return {
        "group APP": [Right("", "group", app)],
        "inputs": [Right("", "topic", "lines")],
        "outputs": [Right("", "topic", f"{app}.out")],
        "control": [Right("", "topic", f"{app}-streamlet-control")],
        "repartition": [Right("", "topic", f"{app}-counts-repartition")],
        "changelog": [Right("", "topic", f"{app}-counts-changelog")],
        "changelogs of windows": [],
        "the topic": [Right("", "topic", "lines"), Right("", "topic", "new")],
        "a topic": [Right("", "topic", "lines")],
        "cluster": [Right("", "cluster")],
        "topics of the records": [],
        "group of letters": [Right("", "group", "lines-streamlet-letters")],
    }[on]


def rights_of(app: str, *who: str) -> list[Right]:
    """All that the table has for these."""
    found = {
        attrs.evolve(one, operation=operation)
        for row in rows()
        if set(who) & set(row.who)
        for on in row.on
        for one in topics(app, on)
        for operation in row.rights
        if operation
    }
    return sorted(found, key=str)


@attrs.frozen
class Case:
    """A user who has all rights of the table but those that are taken."""

    name: str
    taken: tuple[Right, ...]
    #: The application has run before, elsewhere, by the superuser.
    ran: bool = False


def cases() -> list[Case]:
    """One for each right that ``run`` is refused without, and one without all of the others."""
    needed: list[Case] = []
    optional: list[Right] = []
    for row in rows():
        if "`run`" not in row.who:
            continue
        if row.without.startswith("runs"):
            optional += [
                attrs.evolve(one, operation=operation)
                for on in row.on
                for operation in row.rights
                for one in topics("least", on)
            ]
            continue
        assert row.without.startswith("refused"), row
        for on in row.on:
            for operation in row.rights:
                name = f"case{len(needed)}"
                taken = [attrs.evolve(one, operation=operation) for one in topics(name, on)]
                needed.append(Case(name, tuple(taken), ran="has run" in row.without))
    return [Case("least", tuple(optional)), *needed]


#: An application that has run, which commands look at.
WATCHED = "watched"
#: What is given to each command, but those that are tried on instances that run: they are in
#: ``scaling/test_authorisation.py``.
LINES = str(PAGE)
COMMANDS = {
    "status": ["status", WATCHED],
    "members list": ["members", "list", WATCHED],
    "members remove": ["members", "remove", WATCHED, "--instance-id", "a"],
    "reset": ["reset", WATCHED, "--yes"],
    "topics read": ["topics", "read", "lines"],
    "topics write": ["topics", "write", "lines", LINES],
    "topics create": ["topics", "create", "new"],
    "describe": ["describe", WATCHED],
    "pause": ["pause", WATCHED],
    "delete": ["delete", WATCHED, "--yes"],
    "dead-letters list": ["dead-letters", "list", "lines"],
    "dead-letters replay": ["dead-letters", "replay", "lines", "--yes"],
    "dead-letters skip": ["dead-letters", "skip", "lines", "--yes"],
}


def commands() -> list[tuple[str, str, Right]]:
    """Users who have all rights of a command but one: name, command, that right."""
    found = []
    for command in COMMANDS:
        for row in rows():
            if f"`{command}`" not in row.who or not row.without.startswith("refused"):
                continue
            for on in row.on:
                for operation in row.rights:
                    named = topics(WATCHED, on)
                    if on == "the topic":
                        named = named[1:] if command == "topics create" else named[:1]
                    found += [
                        (f"user{len(found)}", command, attrs.evolve(one, operation=operation))
                        for one in named
                    ]
    return found


CASES, OF_COMMANDS = cases(), commands()

#: An application that is reset, and its topics that a reset makes again.
AGAIN = "again"
INTERNAL = [one.name for on in ("repartition", "changelog") for one in topics(AGAIN, on)]
#: Users who lack what a reset can begin without; and what they have in place of it.
RESETTING: dict[str, tuple[list[Right], list[Right]]] = {
    **{look: ([Right(look, "topic", topic) for topic in INTERNAL], []) for look in LOOKS},
    "unread": ([Right("READ", "topic", "lines")], []),
    "keeping": ([Right("DELETE", "topic", topic) for topic in INTERNAL], []),
    "deleting": ([Right("CREATE", "topic", topic) for topic in INTERNAL], []),
    "watching": ([Right("READ", "group", AGAIN)], [Right("DESCRIBE", "group", AGAIN)]),
    "finishing": ([], []),
}


#: An application whose state a backfill makes.
FILLED = "filled"
#: Users who lack a right of a backfill each, but those that Spark's tasks need.
FILLING = {
    f"filling{number}": right
    for number, right in enumerate(
        attrs.evolve(one, operation=operation)
        for row in rows()
        if "`backfill`" in row.who and not row.without.startswith("as on Spark")
        for on in row.on
        for operation in row.rights
        for one in topics(FILLED, on)
    )
}


#: Applications that commit by transactions, whose users lack a right each, but for the first.
BY_TRANSACTIONS = {
    "whole": [],
    "nameless": [Right("WRITE", "transactional-id", "nameless-")],
    **{
        name: [Right("WRITE", "topic", f"{name}-counts-{name}")]
        for name in ("changelog", "repartition")
    },
    "outputs": [Right("WRITE", "topic", "outputs.out")],
}


def counting(name: str) -> sl.App:
    """Counts words: a repartition topic and a changelog."""
    app = sl.App(name)
    words = app.stream("lines", key=str, value=str).group_by(lambda _, word: word, key=str)
    words.count(store="counts").to_stream().to(f"{name}.out")
    return app


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    users = [case.name for case in CASES] + [user for user, _, _ in OF_COMMANDS]
    users += [*RESETTING, *FILLING, *BY_TRANSACTIONS]
    with secured_broker(tmp_path_factory.mktemp("tls"), users) as made:
        admin = KafkaAdmin(made.open_door)
        admin.create_topics(
            [NewTopic("lines", 1)]
            + [NewTopic(f"{name}.out", 1) for name in (AGAIN, WATCHED, FILLED)]
            + [NewTopic(f"{case.name}.out", 1) for case in CASES]
            + [NewTopic(f"{name}.out", 1) for name in BY_TRANSACTIONS]
        )
        admin.close()
        producer = Producer({"bootstrap.servers": made.open_door})
        for number in range(RECORDS):
            producer.produce("lines", b"word-%d" % number, b"k", headers=LETTER)
        producer.flush()
        made.allow(
            {
                **{case.name: without(case.name, "`run`", case.taken) for case in CASES},
                **{
                    user: without(WATCHED, f"`{command}`", (right,)) + _seen(right)
                    for user, command, right in OF_COMMANDS
                },
                **{
                    name: [
                        right
                        for right in (
                            *rights_of(name, "`run`"),
                            Right("WRITE", "transactional-id", f"{name}-"),
                        )
                        if right not in taken
                    ]
                    for name, taken in BY_TRANSACTIONS.items()
                },
                **{
                    user: without(FILLED, "`backfill`", (right,)) + _seen(right)
                    for user, right in FILLING.items()
                },
                **{
                    user: without(AGAIN, "`reset`", taken) + instead
                    for user, (taken, instead) in RESETTING.items()
                },
            }
        )
        for name in [AGAIN, WATCHED, FILLED] + [case.name for case in CASES if case.ran]:
            state = tmp_path_factory.mktemp("state")
            own = {"bootstrap.servers": made.open_door, "state.dir": str(state)}
            counting(name).run(count=RECORDS, settings=Settings.load(own))
        yield made


def without(app: str, who: str, taken: Sequence[Right]) -> list[Right]:
    """The rights of the table for these, but those that are taken."""
    return [one for one in rights_of(app, who) if one not in taken]


def _seen(taken: Right) -> list[Right]:
    """The right to see a group, which comes along with the one to read it."""
    group = taken.kind == "group" and taken.operation == "READ"
    return [attrs.evolve(taken, operation="DESCRIBE")] if group else []


def run(broker: SecuredBroker, case: Case, folder: Path) -> None:
    """Run a case's application until all records are through."""
    login = broker.login(case.name)
    settings = Settings.load({**login, "state.dir": str(folder), "commit.interval.ms": "100"})
    counting(case.name).run(count=RECORDS, timeout=TIMEOUT_S, settings=settings)


def test_run_needs_no_more_than_the_table_has(broker: SecuredBroker, tmp_path: Path) -> None:
    least = CASES[0]
    assert len(least.taken) > 5
    run(broker, least, tmp_path)


@pytest.mark.parametrize("case", CASES[1:], ids=lambda case: f"{case.taken[0]}")
def test_run_names_the_right_that_is_missing(
    broker: SecuredBroker, case: Case, tmp_path: Path
) -> None:
    with pytest.raises(StreamletError) as refused:
        run(broker, case, tmp_path)
    assert str(case.taken[0]) in str(refused.value)
    assert case.taken[0].granted_by in str(refused.value)
    assert refused.value.final or refused.value.exit_code in FINAL_CODES, "none is started again"


@pytest.mark.parametrize("name", BY_TRANSACTIONS)
def test_run_by_transactions_names_the_right_that_is_missing(
    broker: SecuredBroker, name: str, tmp_path: Path
) -> None:
    own = {"state.dir": str(tmp_path), "processing.guarantee": "exactly_once"}
    settings = Settings.load(broker.login(name) | own)
    if not BY_TRANSACTIONS[name]:
        found = counting(name).run(count=RECORDS, timeout=TIMEOUT_S, settings=settings)
        assert len(found) == RECORDS
        return
    with pytest.raises(StreamletError, match=str(BY_TRANSACTIONS[name][0])) as refused:
        counting(name).run(count=RECORDS, timeout=TIMEOUT_S, settings=settings)
    assert refused.value.final or refused.value.exit_code in FINAL_CODES, "none is started again"


@pytest.mark.parametrize(
    ("user", "command", "right"), OF_COMMANDS, ids=lambda one: str(one).replace(" ", "-")
)
def test_a_command_names_the_right_that_is_missing(
    broker: SecuredBroker, user: str, command: str, right: Right, tmp_path: Path
) -> None:
    result = told(broker.login(user), COMMANDS[command], tmp_path)
    assert result.exit_code in (1, 3), result.output
    assert str(right) in result.stderr
    assert right.granted_by in result.stderr


def test_a_reset_that_lacks_a_right_ends_and_another_one_finishes_it(
    broker: SecuredBroker, tmp_path: Path
) -> None:
    def reset(user: str) -> Result:
        return told(broker.login(user), ["reset", AGAIN, "--yes"], tmp_path)

    admin = KafkaAdmin(broker.open_door)
    ids = admin.topic_ids(INTERNAL)
    assert len(ids) == len(INTERNAL)
    for look in LOOKS:
        result = reset(look)
        assert (result.exit_code, admin.topic_ids(INTERNAL)) == (1, ids), result.output
        assert any(f"{look} on topic {topic}" in result.stderr for topic in INTERNAL)
    result = reset("unread")
    assert (result.exit_code, admin.topic_ids(INTERNAL)) == (2, ids), result.output
    assert f"which topics {AGAIN} reads is not known" in result.stderr
    result = reset("keeping")
    assert (result.exit_code, admin.topic_ids(INTERNAL)) == (1, ids), result.output
    assert any(f"DELETE on topic {topic}" in result.stderr for topic in INTERNAL)
    result = reset("deleting")
    assert (result.exit_code, admin.topic_ids(INTERNAL)) == (1, {}), result.output
    assert any(f"CREATE on topic {topic}" in result.stderr for topic in INTERNAL)
    result = reset("watching")
    assert (result.exit_code, len(admin.topic_ids(INTERNAL))) == (1, len(ids)), result.output
    assert f"READ on group {AGAIN}" in result.stderr
    result = reset("finishing")
    assert result.exit_code == 0, result.output
    own = {"bootstrap.servers": broker.open_door, "state.dir": str(tmp_path / "state")}
    again = counting(AGAIN).run(count=RECORDS, settings=Settings.load(own))
    assert len(again) == RECORDS
    admin.close()


def test_a_backfill_names_the_right_that_is_missing(broker: SecuredBroker) -> None:
    """All of it but what Spark's tasks do, which have a test of their own."""
    assert len(FILLING) == 12
    for user, right in FILLING.items():
        with pytest.raises(StreamletError) as refused:
            fill(broker.login(user))
        assert str(right) in str(refused.value)
        assert right.granted_by in str(refused.value)
        if right.operation in ("DELETE", "CREATE"):
            fill({"bootstrap.servers": broker.open_door})  # all topics are there again


def fill(login: dict[str, str]) -> None:
    """A backfill of nothing."""
    known = ApplicationInfo(FILLED, Settings.load(login), counting(FILLED).topology())
    with open_window(known, "operator", threading.Event()) as cluster:
        backfill = Backfill(cluster, {}, force=True)
        backfill.carry_out(backfill.plan(), lambda: None)


#: ``pause`` reaches the broker in the way of these.
ALIKE = {"describe", "delete"}


@pytest.mark.parametrize("command", [*sorted(COMMANDS.keys() - ALIKE), "topics list", "scale-down"])
def test_a_command_names_a_password_that_is_refused(
    broker: SecuredBroker, command: str, tmp_path: Path
) -> None:
    """It was taken for a broker that is away, for 15 seconds."""
    words = COMMANDS.get(command, command.split())
    if command == "scale-down":
        words = ["scale-down", WATCHED, "--percent", "50", "--yes"]
    result = told(broker.login("least", "open-sesame"), words, tmp_path)
    assert result.exit_code == 1, result.output
    said = result.stderr.partition("error: ")[2]
    assert "Authentication failed" in said
    assert "Is the broker running" not in said
    assert "open-sesame" not in result.output


def told(login: dict[str, str], words: Sequence[str], folder: Path) -> Result:
    """Give a command, in this process."""
    file = folder / "login.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in login.items()))
    return CliRunner().invoke(build(), [*words, "--config", str(file)])
