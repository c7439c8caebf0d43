"""Serdes: from Python types to bytes and back.

``serde(T)`` finds the serde of a type; ``json`` and ``avro`` make one explicitly, ``int32``,
``int16``, ``float32`` and ``list_of`` those of Kafka's Java serdes that no type stands for. Nothing
here knows topics, stores or batches.
"""

from streamlet.serdes.avro import avro
from streamlet.serdes.basic import float32, int16, int32
from streamlet.serdes.json_serde import json
from streamlet.serdes.lists import list_of
from streamlet.serdes.resolve import SerdeLike, serde
from streamlet.serdes.serde import ColumnError, Serde
from streamlet.serdes.windowed import Windowed, session_windowed, time_windowed, windowed_json

__all__ = [
    "ColumnError",
    "Serde",
    "SerdeLike",
    "Windowed",
    "avro",
    "float32",
    "int16",
    "int32",
    "json",
    "list_of",
    "serde",
    "session_windowed",
    "time_windowed",
    "windowed_json",
]
