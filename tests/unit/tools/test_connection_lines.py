"""The client's lines about connections wait for a command's end, whose error may explain them."""

from __future__ import annotations

import io
import itertools
import logging
from collections.abc import Iterator
from contextlib import suppress

import pytest

from streamlet.errors import AuthenticationError, StreamletError, UnreachableError
from streamlet.kafka.log import log
from streamlet.kafka.outage_lines import MOST_HELD
from streamlet.tools import connection_lines
from streamlet.tools.connection_lines import holding_connection_lines

NUMBERS = itertools.count()


@pytest.fixture
def handler() -> Iterator[logging.StreamHandler[io.StringIO]]:
    """A handler of the log's lines, as a command has one."""
    handler = logging.StreamHandler(io.StringIO())
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


def broken() -> None:
    """Log a line that the client did not log before, so that it is no repetition."""
    log.error("%s [%s] %s", "FAIL", f"rdkafka#{next(NUMBERS)}", "SSL handshake failed")


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (None, 1),
        (AuthenticationError("set security.protocol = plaintext"), 0),
        (UnreachableError("no answer: Connection refused"), 0),
        (StreamletError("standard output cannot be written"), 1),
    ],
)
def test_only_an_error_about_the_connection_takes_the_place_of_its_lines(
    handler: logging.StreamHandler[io.StringIO], error: Exception | None, lines: int
) -> None:
    with suppress(StreamletError), holding_connection_lines(handler):
        broken()
        assert handler.stream.getvalue() == ""
        if error is not None:
            raise error
    assert handler.stream.getvalue().count("SSL handshake failed") == lines
    broken()  # nothing is held any more
    assert handler.stream.getvalue().count("SSL handshake failed") == lines + 1


def test_other_lines_of_the_client_do_not_wait(
    handler: logging.StreamHandler[io.StringIO],
) -> None:
    with holding_connection_lines(handler):
        log.error("%s [%s] %s", "MAXPOLL", "rdkafka#1", "exceeded")
        log.error("a line of ours")
        assert handler.stream.getvalue().splitlines() == [
            "MAXPOLL [rdkafka#1] exceeded",
            "a line of ours",
        ]


def test_lines_of_a_command_that_goes_on_are_logged_after_a_while(
    handler: logging.StreamHandler[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_lines, "HOLD_MS", 1)
    with holding_connection_lines(handler):
        broken()
        (lines,) = handler.filters
        assert isinstance(lines, connection_lines.ConnectionLines)
        lines._timer.join()
        assert handler.stream.getvalue().count("SSL handshake failed") == 1


def test_few_lines_are_held(handler: logging.StreamHandler[io.StringIO]) -> None:
    with holding_connection_lines(handler):
        for _ in range(MOST_HELD + 5):
            broken()
    assert len(handler.stream.getvalue().splitlines()) == MOST_HELD


def test_at_debug_level_nothing_waits(
    handler: logging.StreamHandler[io.StringIO], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, log.name)
    with holding_connection_lines(handler):
        broken()
        assert handler.stream.getvalue().count("SSL handshake failed") == 1
