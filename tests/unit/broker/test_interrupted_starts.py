"""A start that a signal ends, without a broker's program."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from streamlet.broker.node import BrokerNode
from streamlet.broker.registry import RegistryServer
from streamlet.broker.server import KafkaBroker
from streamlet.signals import handled


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize("server", [KafkaBroker, RegistryServer])
def test_a_signal_amid_the_start_of_a_process_leaves_none_behind(
    server: type[KafkaBroker | RegistryServer],
    number: signal.Signals,
    detached: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[psutil.Process] = []

    class Interrupted(subprocess.Popen[bytes]):
        """The signal comes when the process runs, and before anything else knows of it."""

        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            started.append(psutil.Process(self.pid))
            signal.raise_signal(number)

    monkeypatch.setattr(BrokerNode, "_command", lambda _: ("sleep", "300"))
    monkeypatch.setattr(RegistryServer, "_command", lambda _: ["sleep", "300"])
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    folder = tmp_path / "data"
    folder.mkdir()
    made = server(None, folder)
    try:
        with (
            handled({signal.SIGTERM: signal.default_int_handler}),
            pytest.raises(KeyboardInterrupt),
        ):
            made.start(detached=detached)
        (process,) = started
        assert not process.is_running()
    finally:
        for process in started:
            if process.is_running():
                process.kill()
        made.close()
