"""``streamlet run`` in a terminal: a line that says how it goes."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from streamlet.kafka.client import KafkaAdmin, KafkaSink
from streamlet.kafka.ports import NewTopic, OutgoingRecords
from tests.terminals import CTRL_C, Terminal

pytestmark = pytest.mark.integration

PROGRAM = """
import streamlet as sl

app = sl.App({name!r})
app.stream({name!r}, key=str, value=str).group_by_key().count(store="counts")
"""


@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_terminal_shows_records_rate_lag_and_tasks(
    bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: str
) -> None:
    name = f"live-{uuid4().hex[:8]}"
    KafkaAdmin(bootstrap_servers).create_topics([NewTopic(name, 2, 1)])
    sink = KafkaSink(bootstrap_servers)
    sink.send(OutgoingRecords(name, [b"k"] * 1_234, [b"v"] * 1_234))
    sink.flush(10_000)
    (tmp_path / "live_of_test.py").write_text(PROGRAM.format(name=name))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    where = ("--bootstrap-servers", bootstrap_servers, "--state-dir", str(tmp_path / "state"))
    words = ["run", "live_of_test:app", "--name", "one", "--processes", processes, *where]
    with closing(Terminal(words)) as terminal:
        terminal.await_text("one: 1,234 records, ")
        terminal.await_text("/s, lag 0, 2 tasks")
        sink.send(OutgoingRecords(name, [b"k"], [b"v"]))
        sink.flush(10_000)
        terminal.await_text("one: 1,235 records, ")
        terminal.type(CTRL_C)
        assert terminal.end() == 0, terminal.text
        last = "\r\x1b[Kone stopped: 1,235 records processed, 0 skipped\r\n"
        assert terminal.shown.endswith(last), terminal.shown
    sink.close()
