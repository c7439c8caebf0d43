"""What the README says, run as it stands there; only the broker's address is another."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text("utf-8"), re.M | re.S)


def with_own_names(text: str) -> str:
    """The same for topics and a group that no other test of the session uses."""
    text = re.sub(r'(?<=")(lines|word-counts|words)(?=")', r"readme-\1", text)
    return re.sub(r"^(lines|word-counts)$", r"readme-\1", text)


def test_the_readmes_application_counts_words(bootstrap_servers: str, tmp_path: Path) -> None:
    """The five minutes: create topics, feed them, run in the process, drive without a broker."""
    application, feed, run, driver = (with_own_names(block) for block in blocks("python"))
    (create,) = re.findall(r"^streamlet (topics create .*)$", "\n".join(blocks("sh")), re.M)
    command = [sys.executable, "-m", "streamlet", *map(with_own_names, create.split())]
    subprocess.run([*command, "--bootstrap-servers", bootstrap_servers], check=True, timeout=60)
    (tmp_path / "words.py").write_text(application)
    (tmp_path / "feed.py").write_text(feed.replace("localhost:9092", bootstrap_servers))
    (tmp_path / "run.py").write_text(f"from words import app\n{run}")
    (tmp_path / "drive.py").write_text(f"from words import app\n{driver}")
    environ = {
        "PATH": "/usr/bin:/bin",
        "STREAMLET_BOOTSTRAP_SERVERS": bootstrap_servers,
        "STREAMLET_STATE_DIR": str(tmp_path / "state"),
    }
    printed = ""
    for script in ("feed.py", "drive.py", "run.py"):
        done = subprocess.run(
            [sys.executable, script],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        printed += done.stdout
    assert sorted(set(printed.splitlines())) == [
        *("be 1", "be 2", "is 1", "not 1", "or 1", "question 1"),
        *("that 1", "the 1", "to 1", "to 2"),
    ]


def test_the_readmes_commands_exist(tmp_path: Path) -> None:
    """Every command line of the README is one that the program knows, with its options."""
    lines = re.findall(r"^(streamlet .*?)(?:\s+#.*)?$", "\n".join(blocks("sh")), re.M)
    assert len(lines) >= 6
    for line in lines:
        words = line.split()[1:]
        name = words[:2] if words[0] in ("broker", "members", "topics") else words[:1]
        done = subprocess.run(
            [sys.executable, "-m", "streamlet", *name, "--help"],
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": "/usr/bin:/bin", "COLUMNS": "200"},
        )
        assert done.returncode == 0, line
        for option in (word for word in words if word.startswith("--")):
            assert option in done.stdout, line
