"""The Kafka clients' own log says what streamlet does not say itself, once."""

from __future__ import annotations

import logging

import pytest

from streamlet.kafka.log import log

PID = "[app-h1-0#producer-3] [thrd:main]: Failed to acquire transactional PID from broker b:1/1: "


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_what_is_raised_or_tried_again_all_the_same_is_for_debugging(
    level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level, logger=log.name)
    log.critical("FATAL [app-h1-0#producer-3] [thrd:main]: Fatal error: Local: fenced")
    log.error("TXNERR [app-h1-0#producer-3] [thrd:main]: Current transaction failed")
    log.warning("GETPID %sBroker: Not coordinator: retrying", PID)
    log.warning("GETPID %sBroker: Cluster authorization failed", PID)
    log.error(
        "FAIL [app-h1-0#producer-3] [thrd:b:1/1]: b:1/1: Connect failed at %d (after 1ms)", level
    )
    log.error(
        "FAIL [app-h1-0#producer-4] [thrd:b:1/1]: b:1/1: Connect failed at %d (after 2ms)", level
    )
    found = [(one.levelname, one.getMessage().partition(" ")[0]) for one in caplog.records]
    quieted = [("DEBUG", "FATAL"), ("DEBUG", "TXNERR"), ("DEBUG", "GETPID")]
    said = [("WARNING", "GETPID"), ("ERROR", "FAIL")]
    assert found == (quieted + said if level == logging.DEBUG else said)
