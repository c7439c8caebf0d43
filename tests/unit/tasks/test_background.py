"""What work in the background knows of the machine, and how it comes behind others."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from streamlet.clock import SystemClock
from streamlet.config import Settings
from streamlet.tasks.background import (
    LEAST_SHARE,
    LOOK_NS,
    NICER,
    NICEST,
    Processors,
    lower_priority,
)
from streamlet.tasks.copy_threads import CopyThreads


@pytest.fixture
def account(tmp_path: Path) -> Path:
    return tmp_path / "schedstat"


def ran(account: Path, ran_ns: int, waited_ns: int) -> None:
    account.write_text(f"{ran_ns} {waited_ns} 7\n")


def test_the_more_a_thread_waits_the_less_it_takes(account: Path) -> None:
    processors = Processors(account)
    assert processors.share() == 1.0
    shares = []
    for round_, waited in enumerate([0, LOOK_NS // 100, LOOK_NS // 10, LOOK_NS], start=1):
        ran(account, round_ * LOOK_NS, waited)
        shares.append(processors.share())
    assert shares[0] == 1.0
    assert sorted(shares, reverse=True) == shares
    assert shares[1] == pytest.approx(1 / 1.16)
    assert shares[-1] == LEAST_SHARE


def test_what_was_waited_once_is_forgotten(account: Path) -> None:
    processors = Processors(account)
    ran(account, LOOK_NS, LOOK_NS)
    assert processors.share() == LEAST_SHARE
    ran(account, 2 * LOOK_NS, LOOK_NS)
    assert processors.share() == 1.0


def test_a_thread_that_ran_for_a_moment_only_knows_no_more_than_before(account: Path) -> None:
    processors = Processors(account)
    ran(account, LOOK_NS - 1, LOOK_NS)
    assert processors.share() == 1.0
    ran(account, LOOK_NS, LOOK_NS)
    assert processors.share() == LEAST_SHARE
    ran(account, LOOK_NS + 1, LOOK_NS)
    assert processors.share() == LEAST_SHARE


@pytest.mark.parametrize("text", [None, "", "what\n"])
def test_where_there_is_no_account_nothing_is_short(account: Path, text: str | None) -> None:
    if text is not None:
        account.write_text(text)
    assert Processors(account).share() == 1.0


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities on Linux only")
def test_the_thread_comes_behind_others_and_no_other_does() -> None:
    found: list[int] = []

    def run() -> None:
        lower_priority()
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    before = os.getpriority(os.PRIO_PROCESS, 0)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [min(before + NICER, NICEST)]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


class _Copies:
    """What ``CopyThreads`` keep for two rounds, the second of which is in the background."""

    closed, awaited, quiet, reading = False, False, False, True

    def __init__(self) -> None:
        self.priorities: list[int] = []

    @property
    def has_actives(self) -> bool:
        """True until the first round is over."""
        return not self.priorities

    def take_orders(self) -> None: ...

    def step(self) -> int:
        here = threading.get_native_id()
        self.priorities.append(os.getpriority(os.PRIO_PROCESS, here))
        self.closed = len(self.priorities) == 2
        return 0

    def drop_all(self) -> None: ...


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities on Linux only")
@pytest.mark.parametrize("http_port", [None, 0])
def test_copies_go_behind_others_unless_answers_would_wait(http_port: int | None) -> None:
    copies: Any = _Copies()
    threads = CopyThreads(copies, SystemClock(), Settings(http_port=http_port))
    threads.ordered(begin=True)
    threads.join()
    now = os.getpriority(os.PRIO_PROCESS, 0)
    behind = min(now + NICER, NICEST) if http_port is None else now
    assert copies.priorities == [now, behind]


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities on Linux only")
def test_all_threads_of_a_process_come_behind_others_and_those_they_start() -> None:
    """In a process of its own: nobody can take it back."""
    code = """
import os, threading
from streamlet.tasks.background import lower_priority

def priority():
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

def wait_and_tell():
    go.wait()
    found.append(priority())

found, go = [priority()], threading.Event()
other = threading.Thread(target=wait_and_tell)
other.start()
lower_priority(of_all=True)
go.set()
other.join()
newer = threading.Thread(target=wait_and_tell)
newer.start()
newer.join()
print(*found, priority())
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, *after = map(int, told.stdout.split())
    assert after == [min(before + NICER, NICEST)] * 3
