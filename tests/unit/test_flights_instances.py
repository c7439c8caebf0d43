"""How the demo ends what it started."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from examples.flights.instances import Instances


class Interrupted(subprocess.Popen[bytes]):
    """A process that does not heed Ctrl-C, which comes again while it is waited for."""

    def wait(self, timeout: float | None = None) -> int:
        if timeout is not None:
            raise KeyboardInterrupt
        return super().wait()


def test_a_second_ctrl_c_ends_all_instances_at_once(tmp_path: Path) -> None:
    instances = Instances("127.0.0.1:1", tmp_path)
    words = ["sh", "-c", "trap '' INT; exec sleep 600"]
    started = {name: Interrupted(words, start_new_session=True) for name in ("one", "two")}
    instances._running |= started
    try:
        with pytest.raises(KeyboardInterrupt):
            instances.kill_all()
        assert {one.returncode for one in started.values()} <= {-signal.SIGKILL, -signal.SIGINT}
    finally:
        for one in started.values():
            one.kill()
            one.wait()
