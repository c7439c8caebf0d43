"""Logging of a command: to standard error, as lines for people or as JSON lines.

With JSON lines everything that Python itself would print there is a line, too: warnings, and the
tracebacks of exceptions that nothing catches.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from typing import Any

from streamlet.logs import get_logger
from streamlet.visible import visible, visible_json

_uncaught = get_logger("streamlet.uncaught")


class JsonLines(logging.Formatter):
    """One JSON object per record: time, level, logger, message, and the traceback if any."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        line = {
            "at_ms": int(record.created * 1000),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return visible_json(json.dumps(line, ensure_ascii=False))


class PlainLines(logging.Formatter):
    """Lines for people, in which control characters of others' names are shown, not obeyed."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text, with its traceback if any."""
        return visible(super().format(record))


def noted_line(text: str, level: int, *, as_json: bool) -> str:
    """A text as a line of the log that bears the time of now."""
    record = logging.LogRecord("streamlet.command", level, "", 0, "%s", (text,), None)
    return (JsonLines() if as_json else PlainLines("%(asctime)s %(message)s")).format(record)


def is_json() -> bool:
    """True if the log is JSON lines, so that a worker process can do the same."""
    return any(isinstance(h.formatter, JsonLines) for h in logging.getLogger().handlers)


def set_up_logging(level: str, as_json: bool) -> logging.Handler:
    """Send the log of everything in this process to standard error, from ``level`` on.

    Returns:
        The handler of all lines.
    """
    handler = logging.StreamHandler(sys.stderr)
    plain = PlainLines("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if as_json else plain)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if as_json:
        _log_uncaught()
    # Its debug log is every byte sent, several times a heartbeat, passwords included.
    logging.getLogger("kafka").setLevel(max(logging.INFO, logging.getLogger().level))
    return handler


def _log_uncaught() -> None:
    """Log warnings, and exceptions that nothing catches, instead of Python's text for them."""
    logging.captureWarnings(True)

    def of_main(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        _uncaught.critical("an exception ends the process", exc_info=(kind, error, trace))

    def of_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_type is not SystemExit:
            name = args.thread.name if args.thread is not None else "a thread"
            found = args.exc_value or args.exc_type()
            _uncaught.error("an exception ends thread %s", name, exc_info=found)

    def unraisable(args: sys.UnraisableHookArgs) -> None:
        what = args.err_msg or "an exception is ignored in"
        _uncaught.error("%s %r", what, args.object, exc_info=args.exc_value)

    sys.excepthook, threading.excepthook, sys.unraisablehook = of_main, of_thread, unraisable
