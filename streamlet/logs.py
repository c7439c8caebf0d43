"""Loggers that a user's ``logging.config`` does not silence.

``dictConfig`` and ``fileConfig`` disable every logger there is by then and that they do not name,
unless they are told not to (``disable_existing_loggers``): warnings of ours would be lost without a
trace. Levels, filters and handlers are obeyed as ever.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING


class _Enabled:
    """An attribute ``disabled`` that is always False."""

    if not TYPE_CHECKING:  # for a type checker it is a plain attribute, as in the class below it

        @property
        def disabled(self) -> bool:
            return False

        @disabled.setter
        def disabled(self, value: bool) -> None:
            """Ignore it: see the module; a level turns a logger off."""


def get_logger(name: str) -> logging.Logger:
    """The logger of a module of ours, as ``logging.getLogger`` gives it, that stays enabled."""
    logger = logging.getLogger(name)
    if not issubclass(type(logger), _Enabled):
        kind = type(logger)  # the program may have set one of its own
        logger.__class__ = type(kind.__name__, (_Enabled, kind), {"__module__": kind.__module__})
    return logger
