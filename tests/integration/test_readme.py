"""The README and Getting started, run as they stand; only the broker and the names are others."""

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
PATIENCE_S = 300


class Page:
    """A document, with names for topics and groups that no other test of the session uses."""

    def __init__(self, path: str, names: str) -> None:
        self._text, self._names = (ROOT / path).read_text("utf-8"), names

    def blocks(self, language: str, section: str = "") -> list[str]:
        """The code blocks in this language, of one section or of all."""
        text = self._text
        if section:
            (text,) = re.findall(rf"^## {section}\n(.*?)^## ", text, re.M | re.S)
        return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)

    def commands(self, section: str) -> list[list[str]]:
        """The commands of each block of a section."""
        shown = self.blocks("sh", section)
        line = re.compile(r"^((?:streamlet|printf) .*?)(?:\s+#.*)?$", re.M)
        return [line.findall(block) for block in shown]

    def renamed(self, program: str) -> str:
        return re.sub(rf'(?<=")({self._names})(?=")', r"readme-\1", program)

    def renamed_command(self, line: str) -> str:
        return re.sub(rf"(?<![\w-])({self._names})(?![\w:.-])", r"readme-\1", line)


class Folder:
    """An empty folder with the application of a page, where commands are typed."""

    def __init__(self, path: Path, servers: str, page: Page, file: str, program: str) -> None:
        self.path, self._page = path, page
        (path / file).write_text(page.renamed(program))
        self.env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "STREAMLET_BOOTSTRAP_SERVERS": servers,
            "STREAMLET_STATE_DIR": str(path / "state"),
        }

    def type(self, line: str) -> str:
        """What a command prints."""
        done = subprocess.run(
            ["sh", "-c", self._page.renamed_command(line)],
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
        (self.path / "cell.py").write_text(self._page.renamed(program))
        return self.type(f"{sys.executable} cell.py")

    @contextmanager
    def running(self, line: str) -> Iterator[None]:
        """A command in a terminal of its own, until Ctrl-C."""
        words = self._page.renamed_command(line).split()
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
    page = Page("README.md", "lines|word-counts|words|notebook")
    first, feed_and_run, (read,), more = page.commands("Five minutes")
    (shown,) = page.blocks("text", "Five minutes")
    application, notebook, driver = page.blocks("python")
    folder = Folder(tmp_path, bootstrap_servers, page, "words.py", application)
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

    assert results(folder.python(notebook)) == results(shown)
    assert folder.python(driver) == ""

    (tmp_path / "words.py").write_text(
        page.renamed(application).replace("readme-words", "readme-program") + "app.run()\n"
    )
    with folder.running("python words.py"):
        found = results(folder.type(f"{read} --follow --limit {3 * wanted}"))
    assert found == sorted(3 * results(shown))


def test_getting_started_shows_what_a_customer_spent(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    page = Page("docs/getting-started.md", "orders-per-minute|orders|prices|spent|shop")
    (_, create, *feed), (run, read), (run_more, look, _) = [
        *page.commands("Run it"),
        *page.commands("Share the work"),
    ]
    (shown,) = page.blocks("text", "Run it")
    (application,) = page.blocks('python title="shop.py"')
    folder = Folder(tmp_path, bootstrap_servers, page, "shop.py", application)
    for line in (create, *feed):
        folder.type(line)
    with folder.running(run):
        assert folder.type(f"{read} --limit 1") == shown
        with folder.running(run_more):
            once = look.removesuffix("--watch") + "--json"
            wait_for(lambda: '"two"' in folder.type(once), "it joins")
