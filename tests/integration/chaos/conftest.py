"""Clusters of real instances, of which nothing survives its test.

A long run, with faults that no other run had::

    STREAMLET_CHAOS_ROUNDS=200 STREAMLET_CHAOS_SEED=7 python -m pytest -s -m chaos -o timeout=3600
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.chaos.support import PARTITIONS, Cluster

#: How many random faults a test makes; many more for a long run.
ROUNDS = int(os.environ.get("STREAMLET_CHAOS_ROUNDS", "6"))
#: Which ones; printed by each test, so that a failure can be had again.
SEED = int(os.environ.get("STREAMLET_CHAOS_SEED", "20240"))
#: Under which ``processing.guarantee`` tests run that hold under either.
GUARANTEE = os.environ.get("STREAMLET_CHAOS_GUARANTEE", "at_least_once")


@pytest.fixture
def make_cluster(bootstrap_servers: str, tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """``make_cluster(shape, session_timeout_ms=…)``: an application with topics of its own."""
    made: list[Cluster] = []

    def make(shape: str = "counting", partitions: int = PARTITIONS, **settings: str) -> Cluster:
        made.append(Cluster(bootstrap_servers, tmp_path, shape, partitions=partitions, **settings))
        return made[-1]

    yield make
    for cluster in made:
        cluster.end()
    for cluster in made:
        cluster.delete_topics()


@pytest.fixture
def guarantee() -> str:
    """That of applications which are exact under either."""
    return GUARANTEE


@pytest.fixture
def rounds() -> int:
    """How many random faults to make."""
    return ROUNDS


@pytest.fixture
def seed() -> int:
    """What random faults come from."""
    print(f"STREAMLET_CHAOS_SEED={SEED}")
    return SEED
