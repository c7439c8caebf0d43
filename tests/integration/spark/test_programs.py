"""Programs that a test has started end with a test run that is ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.integration.chaos.support import wait_for
from tests.integration.spark.programs import ROOT

pytestmark = pytest.mark.integration

_RUN = """
import sys, time
from pathlib import Path
from tests.integration.spark.programs import running

with running([sys.executable, "-c", "import time; time.sleep(600)"], Path(sys.argv[1])) as outer:
    print(outer.pid, flush=True)
    time.sleep(600)
"""


def test_sigterm_ends_what_a_test_has_started(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _RUN, str(tmp_path / "log")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        started = psutil.Process(int(run.stdout.readline()))
        run.send_signal(signal.SIGTERM)
    try:
        wait_for(lambda: not started.is_running(), "it ends", 300)
    finally:
        with suppress(psutil.NoSuchProcess):
            started.kill()
