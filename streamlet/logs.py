"""Loggers that a user's ``logging.config`` does not silence.

``dictConfig`` and ``fileConfig`` disable every logger there is by then and that they do not name,
unless they are told not to (``disable_existing_loggers``): warnings of ours would be lost without a
trace. Levels, filters and handlers are obeyed as ever.
"""

from __future__ import annotations

import logging


class _Enabled:
    """Keeps ``disabled`` as it is: a plain attribute, which each call that logs reads."""

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute, but not ``disabled``: see the module; a level turns a logger off."""
        if name != "disabled":
            super().__setattr__(name, value)


def get_logger(name: str) -> logging.Logger:
    """The logger of a module of ours, as ``logging.getLogger`` gives it, that stays enabled."""
    logger = logging.getLogger(name)
    if not issubclass(type(logger), _Enabled):
        logger.disabled = False  # a configuration before this import may have found it
        kind = type(logger)  # the program may have set one of its own
        logger.__class__ = type(kind.__name__, (_Enabled, kind), {"__module__": kind.__module__})
    return logger
