"""Shows a ``streamlet.Consumer``'s counters to Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

_COUNTED = "num."


class ConsumerCollector(Collector):
    """A collector for ``prometheus_client``; Kafka's names with underscores.

    Args:
        metrics: gives the counters, ``Consumer.metrics``; names that begin with ``num.`` only rise.
        group: the consumer's group, for the label.
    """

    def __init__(self, metrics: Callable[[], Mapping[str, int]], group: str) -> None:
        self._metrics = metrics
        self._group = group

    def collect(self) -> Iterable[Family]:
        """The consumer's counts so far."""
        for name, value in sorted(self._metrics().items()):
            shown = "streamlet_consumer_" + name.replace(".", "_").replace("-", "_")
            counted = name.startswith(_COUNTED)
            kind = CounterMetricFamily if counted else GaugeMetricFamily
            family = kind(shown, f"{name} of a streamlet.Consumer", labels=["group"])
            family.add_metric([self._group], value)
            yield family
