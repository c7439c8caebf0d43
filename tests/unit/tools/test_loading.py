"""Ctrl-C while Python still loads the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("loading", ["streamlet.tools.main", "streamlet.tools.run"])
def test_ctrl_c_while_python_loads_is_no_traceback(loading: str) -> None:
    program = (
        "import sys\n"
        "from importlib.abc import MetaPathFinder\n"
        "class Interrupted(MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {loading!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from streamlet.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=400)
    assert (done.returncode, done.stderr) == (130, b"")


def test_ctrl_c_while_run_loads_stops_it_as_any_later_one_would(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text(
        "import streamlet as sl\n"
        "app = sl.App('words')\n"
        "app.stream('lines', key=str, value=str).to('out')\n"
    )
    program = (
        "import os, signal, sys\n"
        "from importlib.abc import MetaPathFinder\n"
        "class Interrupted(MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'streamlet.tools.main': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "sys.argv[1:] = ['run', 'words:app', '--bootstrap-servers', '127.0.0.1:1']\n"
        "from streamlet.__main__ import main\n"
        "main()\n"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=400, cwd=tmp_path)
    assert (done.returncode, "stopped: 0 records" in done.stdout) == (0, True), done
