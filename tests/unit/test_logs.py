"""A logging configuration of the user's program does not silence ours."""

from __future__ import annotations

import io
import logging
import logging.config
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import streamlet
from streamlet.logs import get_logger

MINE: dict[str, Any] = {
    "version": 1,
    "formatters": {"short": {"format": "%(levelname)s %(name)s: %(message)s"}},
    "handlers": {"mine": {"class": "logging.StreamHandler", "formatter": "short"}},
    "root": {"level": "INFO", "handlers": ["mine"]},
}

FILE = """
[loggers]
keys=root
[handlers]
keys=mine
[formatters]
keys=
[logger_root]
level=INFO
handlers=mine
[handler_mine]
class=StreamHandler
args=()
"""


@pytest.fixture
def loggers() -> Iterator[None]:
    """Root's handlers and level, and what this test disables of others, are as before behind it."""
    root, before = logging.getLogger(), {}
    handlers, level = root.handlers[:], root.level
    for name, one in logging.root.manager.loggerDict.items():
        if isinstance(one, logging.Logger):
            before[name] = one.disabled
    yield
    root.handlers[:], root.level = handlers, level
    for name, disabled in before.items():
        logging.getLogger(name).disabled = disabled


def test_no_logger_of_ours_is_disabled_by_a_configuration_of_the_users() -> None:
    code = f"""
import logging, logging.config
from streamlet.app import App
import streamlet.hosting.process, streamlet.tools.main, streamlet.testing
logging.config.dictConfig({MINE!r})
ours = [one for name, one in logging.root.manager.loggerDict.items()
        if name.partition(".")[0] == "streamlet" and isinstance(one, logging.Logger)]
print(len(ours) > 20, [one.name for one in ours if one.disabled])
streamlet.hosting.process.log.info("as the user wants it")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True []\n"
    assert done.stderr == "INFO streamlet.hosting.process: as the user wants it\n"


def test_a_configuration_in_a_file_disables_none_either(loggers: None) -> None:
    ours, theirs = get_logger("streamlet.for_a_test"), logging.getLogger("theirs_of_a_test")
    logging.config.fileConfig(io.StringIO(FILE))
    assert (ours.disabled, theirs.disabled) == (False, True)


def test_levels_of_the_users_are_obeyed(loggers: None) -> None:
    ours = get_logger("streamlet.for_a_test")
    logging.config.dictConfig({**MINE, "loggers": {ours.name: {"level": "ERROR"}}})
    assert not ours.isEnabledFor(logging.WARNING)
    ours.setLevel(logging.NOTSET)
    assert ours.isEnabledFor(logging.INFO)


def test_a_logger_is_of_the_class_that_the_program_has_set() -> None:
    class Loud(logging.Logger):
        def shout(self) -> str:
            return self.name.upper()

    logging.setLoggerClass(Loud)
    try:
        logger = get_logger("streamlet.loud")
    finally:
        logging.setLoggerClass(logging.Logger)
    assert isinstance(logger, Loud)
    assert logger.shout() == "STREAMLET.LOUD"
    assert get_logger("streamlet.loud") is logger is pickle.loads(pickle.dumps(logger))


def test_each_module_has_such_a_logger() -> None:
    package = Path(streamlet.__file__).parent
    plain = re.compile(r"^log\b.*logging\.getLogger", re.MULTILINE)
    files = [path for path in package.rglob("*.py") if plain.search(path.read_text())]
    assert files == []
