"""What the README says, run as it stands there; only the broker and the names are others."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.chaos.support import wait_for

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PATIENCE_S = 300


def blocks(language: str, section: str = "") -> list[str]:
    """The code blocks in this language, of one section or of all."""
    text = README.read_text("utf-8")
    if section:
        (text,) = re.findall(rf"^## {section}\n(.*?)^## ", text, re.M | re.S)
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def renamed(program: str) -> str:
    """The same program for topics and groups that no other test of the session uses."""
    return re.sub(r'(?<=")(lines|word-counts|words|notebook)(?=")', r"readme-\1", program)


def renamed_command(line: str) -> str:
    return re.sub(r"(?<![\w-])(lines|word-counts|words)(?![\w:.-])", r"readme-\1", line)


class Folder:
    """An empty folder with ``words.py``, where commands are typed."""

    def __init__(self, path: Path, servers: str) -> None:
        self.path = path
        (path / "words.py").write_text(renamed(blocks("python")[0]))
        self.env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "STREAMLET_BOOTSTRAP_SERVERS": servers,
            "STREAMLET_STATE_DIR": str(path / "state"),
        }

    def type(self, line: str) -> str:
        """What a command prints."""
        done = subprocess.run(
            ["sh", "-c", renamed_command(line)],
            cwd=self.path,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, (line, done.stderr)
        return done.stdout

    def python(self, program: str) -> str:
        """What a program prints."""
        (self.path / "cell.py").write_text(renamed(program))
        return self.type(f"{sys.executable} cell.py")

    @contextmanager
    def running(self, line: str) -> Iterator[None]:
        """A command in a terminal of its own, until Ctrl-C."""
        words = renamed_command(line).split()
        with subprocess.Popen(
            words, cwd=self.path, env=self.env, stderr=subprocess.PIPE
        ) as process:
            watchdog = threading.Timer(PATIENCE_S, process.kill)
            watchdog.start()
            try:
                yield
                process.send_signal(signal.SIGINT)
                _, said = process.communicate()
                assert process.returncode == 0, said.decode()
            finally:
                watchdog.cancel()
                process.kill()


def results(text: str) -> list[list[str]]:
    return sorted(line.split() for line in text.splitlines())


def test_the_five_minutes_show_a_result(bootstrap_servers: str, tmp_path: Path) -> None:
    first, feed_and_run, (read,), more = (
        re.findall(r"^((?:streamlet|printf) .*?)(?:\s+#.*)?$", block, re.M)
        for block in blocks("sh", "Five minutes")
    )
    (shown,) = blocks("text", "Five minutes")
    folder = Folder(tmp_path, bootstrap_servers)
    install_and_start, create = first
    assert install_and_start == "streamlet broker start"
    feed, run = feed_and_run
    folder.type(create)
    folder.type(feed)
    with folder.running(run):
        wanted = len(results(shown))
        assert results(folder.type(f"{read} --follow --limit {wanted}")) == results(shown)
        assert results(folder.type(read)) == results(shown)
        run_more, *look = more
        with folder.running(run_more):
            wait_for(lambda: '"two"' in folder.type("streamlet status words --json"), "it joins")
            for line in look:
                assert folder.type(line), line

    notebook, driver = blocks("python")[1:]
    assert results(folder.python(notebook)) == results(shown)
    assert folder.python(driver) == ""
