"""Logging of a command: to standard error, as lines for people or as JSON lines."""

from __future__ import annotations

import json
import logging
import sys

from streamlet.visible import visible, visible_json


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


def is_json() -> bool:
    """True if the log is JSON lines, so that a worker process can do the same."""
    return any(isinstance(h.formatter, JsonLines) for h in logging.getLogger().handlers)


def set_up_logging(level: str, as_json: bool) -> None:
    """Send the log of everything in this process to standard error, from ``level`` on."""
    handler = logging.StreamHandler(sys.stderr)
    plain = PlainLines("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if as_json else plain)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Its debug log is every byte sent, several times a heartbeat, passwords included.
    logging.getLogger("kafka").setLevel(max(logging.INFO, logging.getLogger().level))
