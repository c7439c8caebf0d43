"""What people see of a scale-down, and how a command line that cannot be ends."""

from __future__ import annotations

import io
import json
import math
import signal
import socket

import attrs
import pytest
from rich.console import Console, RenderableType
from typer.testing import CliRunner

from streamlet.admin.snapshot import InstanceSnapshot
from streamlet.errors import ConfigError, RefusedError
from streamlet.scaling.plan import ScaleDownPlan, TaskMove
from streamlet.scaling.progress import MoveProgress, Progress
from streamlet.scaling.replace import ReplaceResult
from streamlet.scaling.scale_down import ScaleDownResult
from streamlet.tools.command import Common
from streamlet.tools.durations import duration_ms, timeout_ms
from streamlet.tools.main import build
from streamlet.tools.output import CommandOutput
from streamlet.tools.scaling_view import (
    Asking,
    ProgressView,
    leaving_text,
    plan_view,
    progress_view,
    replaced_text,
    seconds,
    size,
)
from streamlet.types import TaskId


def instance(name: str) -> InstanceSnapshot:
    return InstanceSnapshot(f"process-{name}", name, ())


PLAN = ScaleDownPlan(
    (instance("h3"),),
    (instance("h1"), instance("h2")),
    (TaskMove(TaskId(0, 3), "h3-0", "h1-0", 1_500_000), TaskMove(TaskId(0, 4), "h3-0", None, 0)),
    2,
    75.0,
)
DONE = ScaleDownResult.of(PLAN, done=True)


def shown(what: RenderableType) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=100).print(what)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_plan_says_who_goes_what_moves_and_how_long() -> None:
    assert shown(plan_view("flights", DONE, PLAN.stateless)) == [
        "flights: h3 to leave",
        "stays: h1, h2",
        "2 stateful tasks to move, 1.5 MB to copy, and 2 without state; about 1 min",
        "TASK  FROM  TO    STATE",
        "0_3   h3-0  h1-0  1.5 MB",
        "0_4   h3-0  -     0 B",
    ]


def test_where_nobody_stays_nothing_is_copied() -> None:
    alone = ScaleDownResult.of(attrs.evolve(PLAN, staying=()), done=False)
    assert shown(plan_view("flights", alone, PLAN.stateless))[1:3] == [
        "stays: none",
        "2 stateful tasks to stop, and 2 without state: no instance takes them over",
    ]


def test_of_many_moves_some_are_shown() -> None:
    moves = tuple(TaskMove(TaskId(0, n), "h3-0", "h1-0", 0) for n in range(50))
    lines = shown(
        plan_view("flights", ScaleDownResult.of(attrs.evolve(PLAN, moves=moves), done=True), 0)
    )
    assert lines[-1] == "and 10 more; --json shows all"
    assert len(lines) == 4 + 40 + 1


def test_nobody_has_to_leave() -> None:
    nobody = ScaleDownResult((), ("h1",), (), 0.0, True)
    assert shown(plan_view("flights", nobody, 0)) == ["flights: no instance has to leave"]
    assert leaving_text(nobody, cancelled=False) == "no instance has to leave"


def test_how_it_ended_is_said_in_a_line() -> None:
    assert leaving_text(DONE, cancelled=False) == "h3 left; staying: h1, h2"
    marked = attrs.evolve(DONE, done=False)
    assert leaving_text(marked, cancelled=False).startswith("h3 marked to leave;")
    assert leaving_text(marked, cancelled=True) == "staying: h1, h2; still leaving: h3"


LEARNING = MoveProgress(TaskId(0, 3), "h3-0", "h1-0", "learning", 400, 1_000, 120.0, 5.0)


def test_progress_is_a_table_of_tasks() -> None:
    lines = shown(progress_view(Progress((LEARNING,), (), ("h3",))))
    assert [line.split() for line in lines] == [
        ["TASK", "FROM", "TO", "STAGE", "RESTORED", "ETA"],
        ["0_3", "h3-0", "h1-0", "learning", "400", "of", "1,000,", "40%,", "120/s", "5.0", "s"],
        ["0", "of", "1", "moved;", "leaving:", "h3"],
    ]


def test_on_a_low_screen_those_on_their_way_are_shown_and_the_sum() -> None:
    stages = ["active"] * 10 + ["learning"] * 3 + ["queued"] * 10
    steps = tuple(
        MoveProgress(TaskId(0, n), "h3-0", "h1-0", stage) for n, stage in enumerate(stages)
    )
    lines = shown(progress_view(Progress(steps, (), ("h3",)), lines=8))
    assert [line.split()[:4:3] for line in lines[1:-1]] == [
        ["0_10", "learning"],
        ["0_11", "learning"],
        ["0_12", "learning"],
        ["0_0", "active"],
        ["0_1", "active"],
    ]
    assert lines[-1] == "10 of 23 moved; leaving: h3; 18 not shown"


def test_where_nobody_watches_each_change_is_a_line() -> None:
    told = io.StringIO()
    following = ProgressView(CommandOutput(True, io.StringIO(), told))
    moved = MoveProgress(TaskId(0, 3), "h3-0", "h1-0", "active")
    following.show(Progress((LEARNING,), (), ("h3",)))
    following.show(Progress((attrs.evolve(LEARNING, restored=500),), (), ("h3",)))
    following.show(Progress((moved,), ("h3",), ()))
    assert told.getvalue().splitlines() == [
        "0_3 h3-0 -> h1-0: learning (400 of 1,000, 40%, 120/s)",
        "0_3 h3-0 -> h1-0: active",
        "h3 has left",
    ]


def asking(yes: int) -> tuple[Asking, io.StringIO]:
    told = io.StringIO()
    return Asking(Common(None, {}, CommandOutput(True, io.StringIO(), told)), "flights", yes), told


def test_with_nobody_to_ask_yes_is_needed() -> None:
    question, told = asking(0)
    with pytest.raises(RefusedError, match="give --yes"):
        question.ask(PLAN)
    assert "h3 to leave" in told.getvalue()
    assert not question.asks_twice
    assert asking(1)[0].ask(PLAN)
    assert asking(2)[0].asks_twice


def test_ctrl_c_ends_the_command_until_something_is_to_be_marked() -> None:
    question, _ = asking(1)
    with pytest.raises(KeyboardInterrupt, match="nothing was marked"), question.stop:
        raise KeyboardInterrupt

    def agreed() -> None:
        with question.stop:
            question.ask(PLAN)
            signal.raise_signal(signal.SIGINT)
            assert question.stop.stopped.wait(60)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="marked leave all the same"):
        agreed()
    with pytest.raises(KeyboardInterrupt, match="at a question"), question.stop:
        raise KeyboardInterrupt("at a question")


def test_two_of_one_name_are_told_apart() -> None:
    twins = (InstanceSnapshot("0123456789", "h1", ()), InstanceSnapshot("abcdefghij", "h1", ()))
    plan = attrs.evolve(PLAN, leaving=twins[:1], staying=(*twins[1:], instance("h2")))
    found = ScaleDownResult.of(plan, done=False)
    assert (found.leaving, found.staying) == (("h1 (01234567)",), ("h1 (abcdefgh)", "h2"))


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (2_500_000_000, "2.5 GB")]
)
def test_sizes_have_units(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(("amount", "text"), [(0.2, "0.2 s"), (90, "2 min"), (5_400, "1.5 h")])
def test_times_have_units(amount: float, text: str) -> None:
    assert seconds(amount) == text


def test_a_swap_that_failed_says_why_and_who_has_the_tasks() -> None:
    done = ReplaceResult(("h1",), ("h4",), (), 0.0, {"h4": 8}, done=True)
    assert replaced_text(done).splitlines() == [
        "h1 left, h4 took over",
        "  h4 runs 8 tasks",
        "all checks hold",
    ]
    lost = attrs.evolve(done, done=False, tasks={"h1": 8}, problem="h4 is gone; h1 stays")
    assert replaced_text(lost).splitlines() == [
        "not replaced: h4 is gone; h1 stays",
        "  h1 runs 8 tasks",
    ]
    assert lost.as_dict()["problem"] == "h4 is gone; h1 stays"
    assert replaced_text(attrs.evolve(done, done=False)) == "h1 not replaced yet"


def test_a_time_limit_is_a_duration_or_none_at_all() -> None:
    assert timeout_ms("10m") == 600_000
    assert timeout_ms("infinite") == math.inf
    assert timeout_ms(None) is None
    with pytest.raises(ConfigError, match="--timeout soon: expected whole milliseconds"):
        timeout_ms("soon")
    assert duration_ms("10m", "--older-than") == 600_000
    with pytest.raises(ConfigError, match="--older-than infinite: expected whole milliseconds"):
        duration_ms("infinite", "--older-than")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("scale-down", "x"), "say either"),
        (("scale-down", "x", "--percent", "50", "--name", "h1"), "say either"),
        (("scale-down", "x", "--percent", "0"), "above 0 and up to 100"),
        (("scale-down", "x", "--percent", "101%"), "percent is 101: it says how much stays"),
        (("scale-down", "x", "--percent", "nan"), "above 0 and up to 100"),
        (("scale-down", "x", "--name", "a", "--timeout", "soon"), "--timeout soon"),
        (("scale-down", "x", "--cancel", "--percent", "50"), "--cancel goes with"),
        (("scale-down", "x", "--cancel", "--dry-run"), "--cancel goes with"),
        (("replace", "x", "--old", "a", "--new", "a"), "cannot be both"),
    ],
)
def test_wrong_words_ask_no_broker(words: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(build(), [*words, "--json", "--bootstrap-servers", "localhost:1"])
    assert result.exit_code == 2
    assert says in json.loads(result.stdout)["error"]["message"]


def test_a_name_that_no_saved_file_mends_ends_dev_before_a_broker_is_started() -> None:
    result = CliRunner().invoke(build(), ["dev", "app.py", "--bootstrap-servers", "localhost:1"])
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == ("error: 'app.py': expected module:attribute, for example app:app\n")


def test_a_taken_port_ends_dev_before_a_broker_is_started() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ["dev", "app:app", "--port", port, "--bootstrap-servers", "localhost:1"]
        result = CliRunner().invoke(build(), words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: --port {port} is taken; give another one\n"
