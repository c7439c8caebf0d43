"""Serdes: from Python types to bytes and back.

``serde(T)`` finds the serde of a type; ``json`` and ``avro`` make one explicitly. Nothing here
knows topics, stores or batches.
"""

from streamlet.serdes.avro import avro
from streamlet.serdes.json_serde import json
from streamlet.serdes.resolve import SerdeLike, serde
from streamlet.serdes.serde import ColumnError, Serde
from streamlet.serdes.windowed import Windowed, session_windowed, time_windowed, windowed_json

__all__ = [
    "ColumnError",
    "Serde",
    "SerdeLike",
    "Windowed",
    "avro",
    "json",
    "serde",
    "session_windowed",
    "time_windowed",
    "windowed_json",
]
