"""Commands in a terminal of their own, as somebody types at them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CTRL_C, CTRL_D = "\x03", "\x04"
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: A session's first terminal becomes the one whose keys are its signals.
_LAUNCH = (
    "import os, sys; os.close(os.open(os.ttyname(0), os.O_RDWR)); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


class Terminal:
    """One command in a terminal of so many lines and columns."""

    def __init__(
        self,
        words: Sequence[str],
        program: Sequence[str] = ("-m", "streamlet"),
        lines: int = 24,
        columns: int = 100,
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        size = {"COLUMNS", "LINES"}  # xdist sets them, and they would count in place of ours
        own = {k for k in os.environ if k.startswith("STREAMLET_")} | size
        environ = {k: v for k, v in os.environ.items() if k not in own}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, *program, *words],
            cwd=ROOT,
            env={**environ, "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        #: All that was shown, escape sequences included.
        self.shown = ""

    def close(self) -> None:
        """End the command, and take the terminal away."""
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    @property
    def text(self) -> str:
        """What was shown, without escape sequences."""
        return _ESCAPES.sub("", self.shown).replace("\r", "")

    def type(self, keys: str) -> None:
        """Press these keys."""
        os.write(self._ours, keys.encode())

    def await_text(self, text: str, times: int = 1, timeout_s: float = 300.0) -> None:
        """Wait until it shows this so often."""
        deadline = time.monotonic() + timeout_s
        while self.text.count(text) < times:
            if time.monotonic() > deadline or not self._read(1.0):
                pytest.fail(f"it never shows {text!r} {times} times:\n{self.text}")

    def end(self, timeout_s: float = 300.0) -> int:
        """Wait until it ends; its exit code."""
        deadline = time.monotonic() + timeout_s
        while self._read(1.0):
            if time.monotonic() > deadline:
                pytest.fail(f"it does not end:\n{self.text}")
        return self._process.wait(timeout_s)

    def _read(self, timeout_s: float) -> bool:
        """Take what it shows now; whether it may show more."""
        if not select.select([self._ours], [], [], timeout_s)[0]:
            return True
        try:
            found = os.read(self._ours, 65_536)
        except OSError:  # EIO: nobody has it open any more
            return False
        self.shown += found.decode(errors="replace")
        return bool(found)
