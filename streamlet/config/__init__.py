"""Settings: one table of names, types and defaults; read from code, file, environment and command.

``table`` is the table, ``values`` the kinds of values in it, ``sources`` where they come from, and
``page`` prints the table for people.
"""

from streamlet.config.table import Settings

__all__ = ["Settings"]
