"""An operator's commands, given from the command line as from Python."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

import attrs

from streamlet.admin.window import ApplicationInfo, GroupWindow
from streamlet.hosting.clients import open_window
from streamlet.scaling.follow import ApplicationFollower, Check, no_check
from streamlet.scaling.outages import UNMARKED_LIMIT_MS, outlast
from streamlet.scaling.plan import ScaleDownPlan
from streamlet.scaling.progress import Progress
from streamlet.scaling.replace import Replacement, ReplaceResult
from streamlet.scaling.scale_down import ScaleDown, ScaleDownRequest, ScaleDownResult, cancel
from streamlet.scaling.succession import SuccessorLostError

T = TypeVar("T")

#: Shown the plan; whether to go on.
Ask: TypeAlias = Callable[[ScaleDownPlan], bool]


def _nothing(_: Any) -> None:
    """Ignore progress, because no caller watches."""


@attrs.frozen
class CommandPrompts:
    """The questions and messages of a command; by default it asks nothing and shows nothing.

    ``ask`` may also raise. ``stopped`` ends a wait: what was marked stays marked.
    """

    ask: Ask = lambda plan: True
    watcher: Callable[[Progress], None] = _nothing
    note: Callable[[str], None] = _nothing
    stopped: threading.Event = attrs.field(factory=threading.Event)


def scale_down(
    application: ApplicationInfo,
    wanted: ScaleDownRequest,
    ways: CommandPrompts | None = None,
    *,
    wait: bool = True,
    dry_run: bool = False,
) -> ScaleDownResult:
    """Have a share of the instances, or those named, hand their tasks over and leave.

    Args:
        application: which.
        wanted: who.
        ways: how to ask and to tell.
        wait: until all have left. A broker that is away meanwhile is waited for; before anything
            is marked for the time limit of ``wanted``, or a minute.
        dry_run: only plan.

    Raises:
        StreamletError: nothing was marked, unless it says otherwise.
    """
    ways = ways or CommandPrompts()
    wanted.check()
    with open_window(application, "operator", ways.stopped) as window:
        command = ScaleDown(window, wanted)
        limit_ms = _limit_ms(wanted.timeout_ms) if wait and not dry_run else 0
        plan = _outlast(window, ways, command.plan, limit_ms)
        if not plan.leaving:
            return ScaleDownResult.of(plan, done=True)
        if dry_run or not ways.ask(plan):
            return ScaleDownResult.of(plan, done=False)
        plan = _outlast(window, ways, lambda: command.mark(plan), limit_ms)
        done = wait and _follow(window, plan, ways, wanted.timeout_ms)
        return ScaleDownResult.of(plan, done=done)


def cancel_scale_down(
    application: ApplicationInfo,
    names: Sequence[str] = (),
    ways: CommandPrompts | None = None,
    *,
    wait: bool = True,
) -> ScaleDownResult:
    """Let instances that are leaving stay after all: those named, or all of them.

    What has been handed over stays where it is. Without an instance to call back nothing happens.

    Raises:
        StreamletError: no mark was taken back.
    """
    ways = ways or CommandPrompts()
    with open_window(application, "operator", ways.stopped) as window:
        limit_ms = UNMARKED_LIMIT_MS if wait else 0
        result, back = _outlast(window, ways, lambda: cancel(window, names), limit_ms)
        if back and wait:
            done = ApplicationFollower(window, ways.note).until_calm(back)
            result = attrs.evolve(result, done=done)
        return result


def replace(
    application: ApplicationInfo, wanted: Replacement, ways: CommandPrompts | None = None
) -> ReplaceResult:
    """Wait for new instances, have the old ones hand over to them and leave, and look at the end.

    Raises:
        StreamletError: nothing was marked, unless it says otherwise.
    """
    ways = ways or CommandPrompts()
    wanted.check()
    with open_window(application, "operator", ways.stopped) as window:
        wanted.await_new(window, ways.note)
        command = ScaleDown(window, wanted.scale_down)
        limit_ms = _limit_ms(wanted.timeout_ms)
        plan = _outlast(window, ways, command.plan, limit_ms)
        if not ways.ask(plan):
            return ReplaceResult.of(wanted, plan, done=False)
        plan = _outlast(window, ways, lambda: command.mark(plan), limit_ms)
        check = wanted.succession(window, ways.note).look
        try:
            left = _follow(window, plan, ways, wanted.timeout_ms, check)
        except SuccessorLostError as error:
            given_up = partial(wanted.given_up, window, plan, error)
            return _outlast(window, ways, given_up, wanted.timeout_ms)
        if not left:
            return ReplaceResult.of(wanted, plan, done=False)
        follower = ApplicationFollower(window, ways.note)
        checked = partial(wanted.checked, window, plan, follower)
        return _outlast(window, ways, checked, wanted.timeout_ms)


def _follow(
    window: GroupWindow,
    plan: ScaleDownPlan,
    ways: CommandPrompts,
    limit_ms: float | None,
    check: Check = no_check,
) -> bool:
    follower = ApplicationFollower(window, ways.note, check, limit_ms)
    return follower.until_left(plan, ways.watcher)


def _outlast(
    window: GroupWindow, ways: CommandPrompts, step: Callable[[], T], limit_ms: float | None
) -> T:
    return outlast(step, limit_ms, note=ways.note, clock=window.clock, stopped=window.stopped)


def _limit_ms(timeout_ms: float | None) -> float:
    """Time limit of an outage before an instance is marked."""
    return UNMARKED_LIMIT_MS if timeout_ms is None else min(timeout_ms, UNMARKED_LIMIT_MS)
