"""Brokers and proxies of tests whose arguments cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from streamlet.errors import StreamletError
from streamlet.testing import FaultProxy, KafkaBroker


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: FaultProxy(cast(Any, 9092)),
            r"bootstrap_servers=\) expects host:port.*, got 9092",
        ),
        (lambda: KafkaBroker(port=-1), "port=-1: expected 0 to 65535"),
        (lambda: KafkaBroker(65_535, brokers=3), "port=65535: expected 0 to 65533"),
        (lambda: KafkaBroker(cast(Any, "x")), r"KafkaBroker\(port=\) expects a port, or None.*'x'"),
        (
            lambda: KafkaBroker(brokers=cast(Any, "3")),
            r"brokers=\) expects a whole number, got '3'",
        ),
    ],
)
def test_a_broker_and_a_proxy_that_cannot_be_are_refused_before_they_begin(
    make: Callable[[], object], said: str
) -> None:
    with pytest.raises(StreamletError, match=said):
        make()
