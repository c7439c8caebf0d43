"""Settings: one table of names, types and defaults; read from code, file, environment and command.

``table`` is the table, ``values`` the kinds of values in it, ``sources`` where they come from,
``kafka_streams`` where Kafka Streams' other settings are, and ``page`` prints it all for people.
"""

from streamlet.config.table import ClientKind, Settings

__all__ = ["ClientKind", "Settings"]
