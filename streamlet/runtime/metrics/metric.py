"""The parts of a metric: its name, its meaning, and where a member has its value."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import attrs

if TYPE_CHECKING:
    from streamlet.processing.task import Task
    from streamlet.runtime.metrics.measure import MeasuredMember

#: A number; of a histogram its counts by bucket, one more for those above all bounds, and the sum.
Value: TypeAlias = float | list[float]


class MetricType(enum.StrEnum):
    """Prometheus' types that we use."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@attrs.frozen
class Metric:
    """The description of a metric: how it is exposed, and where its values come from.

    Args:
        kind: Prometheus' type.
        name: as exposed.
        help: what it means, with its unit where the name does not say it.
        labels: its own, behind those that every metric has.
        of: its value of a member, or several by their labels; None: it is not of a member.
        of_task: its value of an active task, the only label.
    """

    kind: MetricType
    name: str
    help: str
    labels: tuple[str, ...] = ()
    of: Callable[[MeasuredMember], Value | Mapping[tuple[str, ...], Value]] | None = None
    of_task: Callable[[Task], float | None] | None = None


counter = partial(Metric, MetricType.COUNTER)
gauge = partial(Metric, MetricType.GAUGE)
histogram = partial(Metric, MetricType.HISTOGRAM)
