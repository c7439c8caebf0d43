"""The line in which an instance says where it answers queries, as the benches read it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from bench.queries_moves import SERVES
from streamlet.hosting.log import JsonLines, PlainLines
from tests.unit.web.served import counted, server_of

pytest.importorskip("aiohttp")


@pytest.mark.parametrize("formatter", [PlainLines, JsonLines])
def test_the_benches_find_the_address_in_the_line(
    formatter: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = counted()
    with caplog.at_level(logging.INFO, "streamlet"), server_of(made.served) as server:
        url = server.url
    made.driver.close()
    lines = [formatter().format(record) for record in caplog.records]
    assert [found[1] for line in lines if (found := SERVES.search(line))] == [url]
