"""The test kit of an application: a real broker, and pieces that need none.

Names are loaded when they are first used: pytest imports this package for the fixtures' sake in
every run, and must not load (or fail to load) a Kafka client for that. To add a name, add its
module to ``_MODULES`` and its import to the block for type checkers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlet.lazy_names import load_name

if TYPE_CHECKING:
    from streamlet.broker.server import KafkaBroker as KafkaBroker
    from streamlet.testing.driver import TopologyTestDriver as TopologyTestDriver
    from streamlet.testing.driver_topics import OutputRecord as OutputRecord
    from streamlet.testing.faults.fault import Fault as Fault
    from streamlet.testing.faults.proxy import FaultProxy as FaultProxy
    from streamlet.testing.faults.wire import ProxiedRequest as ProxiedRequest

#: Public name -> module that has it.
_MODULES = {
    "Fault": "streamlet.testing.faults.fault",
    "FaultProxy": "streamlet.testing.faults.proxy",
    "KafkaBroker": "streamlet.broker.server",
    "OutputRecord": "streamlet.testing.driver_topics",
    "ProxiedRequest": "streamlet.testing.faults.wire",
    "TopologyTestDriver": "streamlet.testing.driver",
}


def __getattr__(name: str) -> object:
    return load_name(__name__, _MODULES, name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
