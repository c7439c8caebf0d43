"""What the demo makes of the words of ``streamlet scale-down``."""

from __future__ import annotations

from examples.flights.drain import Told
from streamlet.scaling.progress import MoveProgress, Progress
from streamlet.tools.scaling_view import plan_view, progress_lines
from streamlet.types import TaskId
from tests.unit.tools.test_scaling_view import DONE, shown


def test_the_demo_understands_what_the_command_says() -> None:
    told = Told()
    assert told.progress is None
    for line in shown(plan_view("flights", DONE, 0)):
        assert told.take(line)
    assert told.leaving == ["h3"]
    steps = (
        MoveProgress(TaskId(0, 3), "h3-0", "h1-0", "learning", 400, 1_000),
        MoveProgress(TaskId(0, 4), "h3-0", "h2-0", "active"),
    )
    for line in progress_lines(None, Progress(steps, (), ("h3",))):
        assert not told.take(line)
    assert told.progress == "h3 hands over, 1 of 2 tasks moved: 0_3 learning, 0_4 active"
    [line] = progress_lines(Progress(steps, (), ("h3",)), Progress(steps, ("h3",), ()))
    assert told.take(line)
    assert told.progress is None
