"""The test kit of an application: a real broker, and pieces that need none.

Names are loaded when they are first used: pytest imports this package for the fixtures' sake in
every run, and must not load (or fail to load) a Kafka client for that. To add a name, add its
module to ``_MODULES`` and its import to the block for type checkers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamlet.broker.server import KafkaBroker as KafkaBroker
    from streamlet.testing.driver import TopologyTestDriver as TopologyTestDriver
    from streamlet.testing.driver_topics import OutputRecord as OutputRecord

#: Public name -> module that has it.
_MODULES = {
    "KafkaBroker": "streamlet.broker.server",
    "OutputRecord": "streamlet.testing.driver_topics",
    "TopologyTestDriver": "streamlet.testing.driver",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
