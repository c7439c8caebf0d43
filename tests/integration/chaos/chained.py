"""The application ``chained``: what it needs first, and what its stores must hold in the end."""

from __future__ import annotations

from collections import Counter

from tests.integration.chaos.checks import assert_counts_exact, contents, counts_of
from tests.integration.chaos.support import Cluster, Instance
from tests.integration.chaos.topics import Load

DIGITS = 10


def rows_of_digits(cluster: Cluster) -> None:
    """Give each digit a row of the table that is joined."""
    with Load(cluster.servers, cluster.topic("names"), keys=DIGITS) as rows:
        rows.send(500)
        rows.finish()


def assert_all_exact(cluster: Cluster, instances: list[Instance], true: Counter[str]) -> None:
    """Each store is the one that these records make, read once each."""
    copies = contents(cluster, instances)
    assert sorted(copies) == list(cluster.tasks)
    assert_counts_exact(cluster, copies, true)
    digits: Counter[str] = Counter()
    endings: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for key, count in true.items():
        digits[f"k{key[-1]}"] += count
        endings[key[-2:]] += count
        sums[key[-1]] += count * (count + 1) // 2
    assert counts_of(copies, "sums") == sums
    assert counts_of(copies, "updates") == {"all": true.total()}
    assert counts_of(copies, "merged") == endings
    assert counts_of(copies, "met") == digits
