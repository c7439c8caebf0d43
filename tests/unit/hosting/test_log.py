"""The log of a command."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from streamlet.hosting.log import is_json, set_up_logging

#: Everything that Python prints to standard error by itself.
PROGRAM = """
import threading, warnings
from streamlet.hosting.log import set_up_logging

class Bad:
    def __del__(self):
        raise ValueError("unraisable")

set_up_logging("warning", as_json=True)
warnings.warn("a warning")
thread = threading.Thread(target=lambda: 1 / 0, name="mine")
thread.start()
thread.join()
Bad()
raise KeyError("the end")
"""


@pytest.fixture(autouse=True)
def _hooks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What JSON lines change of Python is as before behind each test."""
    for module, name in ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook")):
        monkeypatch.setattr(module, name, getattr(module, name))
    yield
    logging.captureWarnings(False)


@pytest.mark.parametrize(
    ("level", "kafka"), [("debug", "INFO"), ("info", "INFO"), ("warning", "WARNING")]
)
def test_bytes_of_requests_are_never_logged(level: str, kafka: str) -> None:
    set_up_logging(level, as_json=False)
    assert logging.getLogger().level == logging.getLevelName(level.upper())
    heard = logging.getLogger("kafka").getEffectiveLevel()
    assert heard == logging.getLevelName(kafka)


def test_json_lines_have_what_was_said_and_where(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("info", as_json=True)
    assert is_json()
    logging.getLogger("streamlet.x").info("said %s", "so")
    line = json.loads(capsys.readouterr().err)
    assert line["at_ms"] > 0
    del line["at_ms"]
    assert line == {"level": "info", "logger": "streamlet.x", "message": "said so"}


def test_with_json_lines_what_python_prints_is_json_too() -> None:
    command = [sys.executable, "-W", "default", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["level"] for line in lines] == ["warning", "error", "error", "critical"]
    assert "a warning" in lines[0]["message"]
    assert lines[1]["message"] == "an exception ends thread mine"
    said = ["ZeroDivisionError", "ValueError: unraisable", "KeyError: 'the end'"]
    assert all(text in line["traceback"] for text, line in zip(said, lines[1:], strict=True))
