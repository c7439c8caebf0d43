"""streamlet on Spark: the same ``App`` as a Structured Streaming query.

    import streamlet as sl

    spark = sl.spark.session(master="local[2]")

Needs the extra ``spark``; this module can be imported without it.
"""

from __future__ import annotations

from streamlet.spark.cluster.session import session, stop
from streamlet.spark.kafka.connector import connector_jars
from streamlet.spark.query import start, to_dataframe
from streamlet.spark.sql.frame_sources import FrameSource
from streamlet.spark.sql.typed_columns import typed

__all__ = [
    "FrameSource",
    "connector_jars",
    "session",
    "start",
    "stop",
    "to_dataframe",
    "typed",
]
