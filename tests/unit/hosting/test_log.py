"""The log of a command."""

from __future__ import annotations

import json
import logging

import pytest

from streamlet.hosting.log import is_json, set_up_logging


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
