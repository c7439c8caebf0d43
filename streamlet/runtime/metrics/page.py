"""The table of metrics as a page: ``python -m streamlet.runtime.metrics.page`` prints it."""

from __future__ import annotations

from streamlet.runtime.metrics.spark_table import SPARK, SPARK_LAG, SPARK_SECONDS, SPARK_TASKS
from streamlet.runtime.metrics.table import METRICS, SECONDS, Metric

_HEAD = """\
# Metrics, health, readiness

<!-- Made by `python -m streamlet.runtime.metrics.page > docs/metrics.md`; change the table in
     streamlet/runtime/metrics/table.py, or the text in page.py. -->

`streamlet run APP --metrics-port 9404` and `app.run(metrics_port=9404)` serve three paths, one port
per instance, whatever the number of its worker processes:

| path | |
|---|---|
| `/metrics` | what is below, in Prometheus' format |
| `/health` | liveness: 200 while restarting the instance would not help, else 503 |
| `/ready` | readiness: 200 when all members are in the group and all their active tasks run |

Port 0 takes any free port and says which. `--metrics-host` says on which interface (default: all).
A port that is taken ends the command with exit code 2 before anything is started.

Both probes answer with a JSON document that names each member's problems. `/health` fails when a
member's loop has not gone round for `max.poll.interval.ms`, or when its heartbeats have not been
answered for `session.timeout.ms` although the group coordinator can be reached. A broker that is
away makes no instance unhealthy, only unready: a restart would not bring the broker back. A worker
process that ended is started again by its supervisor, so it makes the instance unready, too.

## Names

Kafka Streams' group and name with underscores, behind `streamlet_`: `stream-thread-metrics
process-total` is `streamlet_stream_thread_process_total`. What Kafka gives as rate, average and
maximum is a counter or a histogram here, since Prometheus makes those of them over any window and
any number of members; times are in seconds. A histogram's maximum is known to its bucket; the
bounds are {bounds} s.

Every metric has the labels `application` and `member` (`h1-0`: member 0 of instance `h1`); those of
the whole instance have an empty `member`. Values are counted per batch and per commit, never per
record, and reported once a second. A worker process that is started again counts from zero, as
Prometheus expects of counters.

| metric | type | labels | meaning |
|---|---|---|---|
"""

_MIDDLE = """
A hand-over's gap is the owner's side and the new owner's side together, and at most a few
milliseconds between them in which the mark is looked for:
`streamlet_handover_release_seconds` + `streamlet_handover_activate_seconds`.

## Where Kafka's metrics are

| Kafka | here |
|---|---|
"""

_SPARK = """
## On Spark

`streamlet run APP --engine spark --metrics-port 9404` serves the same paths with the metrics of the
query, reported after each micro-batch; `/ready` says whether the query runs. Every metric has the
label `application`, and none `member`; bounds of the histogram are {bounds} s. A task is named as
natively, and so is what means the same. Tasks are not reported where Spark SQL does the
aggregations, nor where Java's connector reads for an application that keeps no state.

| metric | type | labels | meaning |
|---|---|---|---|
"""

_TAIL = """
## How many instances

`streamlet_advised_instances` is what `streamlet status --advice` says ([how](autoscaling.md)):
reported by the member that leads the group, every 15 s, of the lag's trend over five minutes at
most. Only one member tells it, so ask for
`max(streamlet_advised_instances{application="flights"})`.

The lag of a whole application is
`sum by (application) (streamlet_consumer_fetch_manager_records_lag)`, of the partitions that
a member runs; `streamlet status` reads it off commits, so it knows it of the others, too.

## `streamlet.Consumer`

A consumer counts for itself: `consumer.metrics()` gives a dict with Kafka's names, as
`num.incompatible.rebalance`, `num.rebalance` and `assigned.partitions`. To show them:

```python
from prometheus_client import REGISTRY
from streamlet.runtime.metrics.consumer import ConsumerCollector

REGISTRY.register(ConsumerCollector(consumer.metrics, group="flights"))
```

which exposes `streamlet_consumer_num_incompatible_rebalance_total`,
`streamlet_consumer_num_rebalance_total` and `streamlet_consumer_assigned_partitions` with a label
`group`.
"""


def page() -> str:
    """The whole page, in Markdown."""
    parts = [_HEAD.format(bounds=", ".join(f"{bound:g}" for bound in SECONDS))]
    parts += [_row(metric) for metric in METRICS.values()]
    parts.append(_MIDDLE)
    kafka = [pair for metric in METRICS.values() for pair in metric.kafka]
    parts += [f"| `{name}` | `{ours}` |\n" for name, ours in sorted(kafka)]
    parts.append(_SPARK.format(bounds=", ".join(f"{bound:g}" for bound in SPARK_SECONDS)))
    parts += [_row(metric) for metric in (*SPARK, *SPARK_TASKS.values(), SPARK_LAG)]
    parts.append(_TAIL)
    return "".join(parts)


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |\n"


if __name__ == "__main__":
    print(page(), end="")
