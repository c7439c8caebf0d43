"""streamlet on Spark: the same ``App`` as a Structured Streaming query.

    import streamlet as sl

    spark = sl.spark.session(master="local[2]")

Needs the extra ``spark``; this module can be imported without it. Names are loaded when they are
first used: commands that need a constant of this package, and Spark's Python processes, must not
load all of it. To add a name, add its module to ``_MODULES`` and its import to the block for type
checkers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlet.lazy_names import load_name

if TYPE_CHECKING:
    from streamlet.spark.cluster.session import session, stop
    from streamlet.spark.query import start, to_dataframe
    from streamlet.spark.sql.frame_sources import FrameSource
    from streamlet.spark.sql.typed_columns import typed

__all__ = [
    "FrameSource",
    "session",
    "start",
    "stop",
    "to_dataframe",
    "typed",
]

#: Public name -> module that has it.
_MODULES = {
    "FrameSource": "streamlet.spark.sql.frame_sources",
    "session": "streamlet.spark.cluster.session",
    "start": "streamlet.spark.query",
    "stop": "streamlet.spark.cluster.session",
    "to_dataframe": "streamlet.spark.query",
    "typed": "streamlet.spark.sql.typed_columns",
}


def __getattr__(name: str) -> object:
    return load_name(__name__, _MODULES, name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
