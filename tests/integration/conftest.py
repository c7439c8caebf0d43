"""Fixtures of tests on a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamlet.kafka.client import KafkaAdmin


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[KafkaAdmin]:
    """Topics of the session's broker."""
    admin = KafkaAdmin(bootstrap_servers)
    yield admin
    admin.close()
