"""The public names of the package: what is imported here is loaded when it is first used."""

from streamlet.broker.server import KafkaBroker as KafkaBroker
from streamlet.testing.driver import TopologyTestDriver as TopologyTestDriver
from streamlet.testing.driver_topics import OutputRecord as OutputRecord
from streamlet.testing.faults.fault import Fault as Fault
from streamlet.testing.faults.proxy import FaultProxy as FaultProxy
from streamlet.testing.faults.wire import ProxiedRequest as ProxiedRequest
