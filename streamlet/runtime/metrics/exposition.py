"""Metrics and health of an instance, from the reports of its members.

The members are processes; the server knows each by its newest ``Snapshot``. Scrapes come
on threads of the server's: a snapshot is replaced as a whole and never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any

import attrs
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from streamlet.clock import Clock
from streamlet.histogram import SECONDS
from streamlet.runtime.metrics import health
from streamlet.runtime.metrics.health import HealthLimits, MemberReport
from streamlet.runtime.metrics.metric import Metric, MetricType
from streamlet.runtime.metrics.table import COMMON_LABELS, METRICS
from streamlet.runtime.metrics.values import MemberHealth, Sample, Snapshot

_FAMILIES: dict[MetricType, Any] = {
    MetricType.COUNTER: CounterMetricFamily,
    MetricType.GAUGE: GaugeMetricFamily,
    MetricType.HISTOGRAM: HistogramMetricFamily,
}


@attrs.frozen
class _Report:
    snapshot: Snapshot
    at_ms: int


class Exposition(Collector):
    """The metrics of one instance; a collector for ``prometheus_client``.

    Args:
        application: its name.
        name: of the instance; its members are called by it and their number.
        members: how many it has.
        limits: of health.
        clock: the time.
    """

    def __init__(
        self, application: str, name: str, members: int, *, limits: HealthLimits, clock: Clock
    ) -> None:
        self._application = application
        self._name = name
        self._limits = limits
        self._clock = clock
        self._failed = 0
        #: Host and port at which others find it, once it is served.
        self.address: tuple[str, int] | None = None
        starting = _Report(Snapshot(health=health.STARTING), clock.now_ms())
        #: By number; replaced as a whole.
        self._reports: dict[int, _Report] = dict.fromkeys(range(max(members, 1)), starting)

    # Called by the supervisor.

    def take(self, member: int, snapshot: Snapshot) -> None:
        """Take a member's newest snapshot."""
        self._reports = {**self._reports, member: _Report(snapshot, self._clock.now_ms())}

    def ended(self, member: int, *, failed: bool) -> None:
        """A member's process ended; its values are of the past."""
        self._failed += failed
        gone = Snapshot(health=health.RESTARTING if failed else MemberHealth("NOT_RUNNING"))
        self._reports = {**self._reports, member: _Report(gone, self._clock.now_ms())}

    def removed(self, member: int) -> None:
        """Forget a member that was removed: its metrics are exposed no more."""
        self._reports = {number: one for number, one in self._reports.items() if number != member}

    # Called by the server.

    def alive(self) -> dict[str, Any]:
        """The liveness document."""
        return health.alive(self._known(), self._limits)

    def ready(self) -> dict[str, Any]:
        """The readiness document."""
        return health.ready(self._known(), self._limits)

    def collect(self) -> Iterable[Family]:
        """Every metric that any member reported, in the order of the table."""
        reports = self._reports
        by_metric: dict[str, list[tuple[str, Sample]]] = {}
        for sample in self._of_instance(reports):
            by_metric.setdefault(sample.metric, []).append(("", sample))
        for number in sorted(reports):
            for sample in reports[number].snapshot.samples:
                by_metric.setdefault(sample.metric, []).append((self._member(number), sample))
        for metric in METRICS.values():
            if metric.name in by_metric:
                yield self._family(metric, by_metric[metric.name])

    def describe(self) -> Iterable[Family]:
        """No metrics in advance, because the tasks decide which there are."""
        return ()

    def _known(self) -> dict[str, MemberReport]:
        reports, now = self._reports, self._clock.now_ms()
        return {
            self._member(number): MemberReport(one.snapshot.health, now - one.at_ms)
            for number, one in reports.items()
        }

    def _member(self, number: int) -> str:
        return f"{self._name}-{number}"

    def _of_instance(self, reports: Mapping[int, _Report]) -> Iterator[Sample]:
        alive = sum(bool(one.snapshot.samples) for one in reports.values())
        yield Sample("streamlet_info", (self._name, version("streamlet")), 1)
        yield Sample("streamlet_stream_alive_stream_threads", (), alive)
        yield Sample("streamlet_stream_failed_stream_threads_total", (), self._failed)

    def _family(self, metric: Metric, found: list[tuple[str, Sample]]) -> Family:
        labels = [*COMMON_LABELS, *metric.labels]
        family = _FAMILIES[metric.kind](metric.name, metric.help, labels=labels)
        for member, sample in found:
            values = [self._application, member, *sample.labels]
            if metric.kind is MetricType.HISTOGRAM:
                assert isinstance(sample.value, list), sample
                family.add_metric(values, _buckets(sample.value), sample.value[-1])
            else:
                family.add_metric(values, sample.value)
        return family  # type: ignore[no-any-return]


def _buckets(value: list[float]) -> list[tuple[str, float]]:
    """Cumulative buckets, as Prometheus wants them."""
    found, total = [], 0.0
    for bound, count in zip([*map(str, SECONDS), "+Inf"], value[:-1], strict=True):
        total += count
        found.append((bound, total))
    return found
