"""``streamlet scale-down`` with somebody at the keyboard: questions, progress, Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from streamlet import App
from tests.integration.chaos.support import LONG_SESSIONS, Cluster
from tests.integration.scaling.commands import await_band, learners, look
from tests.integration.scaling.scenes import NEVER_READY, Marks
from tests.terminals import CTRL_C, CTRL_D, HIDE, SHOW, Terminal

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_a_user_is_asked_and_sees_the_progress(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Learners never say that they are ready: only a deadline moves anything."""
    cluster = make_cluster("counting", **NEVER_READY, **LONG_SESSIONS)
    a, b = cluster.instance("a", 0).start(), cluster.instance("b", 0).start()
    await_band(cluster, [a, b])
    marks = Marks(cluster)

    where = ("--bootstrap-servers", cluster.servers)

    def scale_down(*words: str) -> closing[Terminal]:
        return closing(Terminal(["scale-down", cluster.name, *words, *where]))

    for keys, code in (("n\n", 5), (CTRL_D, 5), (CTRL_C, 130)):
        with scale_down("--name", "b") as terminal:
            terminal.await_text("go on? [y/N]:")
            assert "b to leave" in terminal.text
            terminal.type(keys)
            assert terminal.end() == code, terminal.text
            assert "nothing was marked" in terminal.text
            assert_left_tidy(terminal)
        assert marks.names() == set(), keys

    with scale_down("--name", "a", "--name", "b") as terminal:
        terminal.await_text("go on? [y/N]:")
        terminal.type("y\n")
        terminal.await_text("no instance will be left to go on with the work; really? [y/N]:")
        terminal.type("\n")
        assert terminal.end() == 5, terminal.text
        assert_left_tidy(terminal)
    assert marks.names() == set()

    with scale_down("--name", "b") as terminal:
        terminal.await_text("go on? [y/N]:")
        terminal.type("y\n")
        terminal.await_text("0 of 4 moved; leaving: b")
        assert HIDE in terminal.shown
        terminal.type(CTRL_C)
        assert terminal.end() == 4, terminal.text
        assert "b marked to leave; streamlet status shows how far it is" in terminal.text
        assert_left_tidy(terminal)
    assert marks.names() == {"b"}
    with closing(Terminal(["status", cluster.name, "--watch", *where])) as terminal:
        terminal.await_text("(leaving)")
        terminal.type(CTRL_C)
        assert terminal.end() == 0, terminal.text
        assert_left_tidy(terminal)
    back = App(cluster.name, bootstrap_servers=cluster.servers).cancel_scale_down(["b"])
    assert (back.done, back.leaving, back.staying) == (True, (), ("a", "b"))
    assert (marks.names(), learners(look(cluster))) == (set(), [])

    with scale_down("--name", "b", "--timeout", "1s", "--yes") as terminal:
        assert terminal.end() == 0, terminal.text
        assert "go on?" not in terminal.text
        assert "of 4 moved; left: b" in terminal.text
        assert terminal.text.rstrip().endswith("b left; staying: a")
        assert_left_tidy(terminal)
    assert b.wait() == 0, b.log()
    a.interrupt()
    assert a.wait() == 0, a.log()


def assert_left_tidy(terminal: Terminal) -> None:
    """No traceback, and the cursor is there again."""
    assert "Traceback" not in terminal.text
    assert terminal.shown.count(HIDE) == terminal.shown.count(SHOW)
    assert terminal.shown.rfind(SHOW) >= terminal.shown.rfind(HIDE)
