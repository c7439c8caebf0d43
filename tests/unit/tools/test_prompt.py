"""Questions at a terminal, and the ways not to answer them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from streamlet.types import TaskId
from tests.terminals import CTRL_C, CTRL_D, Terminal
from tests.unit.tools.test_state_command import make

#: Has Ctrl-C come after Python's last look for signals, right before it waits for a key.
_LATE = """
import ctypes
from streamlet.tools.output import CommandOutput
from streamlet.tools.prompt import confirm

hook = ctypes.c_void_p.in_dll(ctypes.pythonapi, "PyOS_InputHook")
hook.value = ctypes.cast(ctypes.pythonapi.PyErr_SetInterrupt, ctypes.c_void_p).value
try:
    confirm(CommandOutput(False), ["go on?"], "nothing was done")
except KeyboardInterrupt as error:
    print(f"broken off, {error}")
"""


def test_a_ctrl_c_that_comes_just_before_the_read_is_not_lost() -> None:
    with closing(Terminal([], program=["-c", _LATE])) as terminal:
        assert terminal.end() == 0, terminal.text
        assert "broken off, nothing was done" in terminal.text


@pytest.mark.parametrize(
    ("keys", "code", "said"),
    [
        ("n\n", 5, "error: nothing was deleted"),
        ("\n", 5, "error: nothing was deleted"),
        (CTRL_D, 5, "error: nothing was deleted"),
        (CTRL_C, 130, "nothing was deleted"),
        ("what\ny\n", 0, "deleted the state of 1 task"),
    ],
)
def test_somebody_is_asked_before_state_is_deleted(
    tmp_path: Path, keys: str, code: int, said: str
) -> None:
    folder = make(tmp_path, "words", TaskId(0, 1), 100)
    words = ["state", "clean", "words", "--state-dir", str(tmp_path)]
    with closing(Terminal(words)) as terminal:
        terminal.await_text("? [y/N]:")
        assert folder.exists()
        terminal.type(keys)
        assert terminal.end() == code, terminal.text
        assert said in terminal.text
        assert "Traceback" not in terminal.text
    assert folder.exists() is (code != 0)
