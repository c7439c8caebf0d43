"""Names the process that holds a lock, for messages.

A lock's file says who took it. A child that this process forked may still have it open when that
has ended, if it was forked by C code or by another version of streamlet; Linux shows it in /proc.
What other users have open it shows to root alone, but to all the process that took a lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from streamlet.own_files import user_name
from streamlet.user_code import cut

_PROC = Path("/proc")
#: Characters of a command that are shown.
_MOST = 100


def holder_text(file: Path, taken_by: int | None) -> str:
    """Describe who holds a lock: process id and command, as far as the system shows them.

    Args:
        file: the lock's.
        taken_by: the process id in it; None: it says none.
    """
    if taken_by is None or not _has_open(taken_by, file):
        other = next((pid for pid in _pids() if _has_open(pid, file)), None) or _locking(file)
        if other is not None and taken_by is not None and not _runs(taken_by):
            return f"{_named(other)}, which has it from process {taken_by} that has ended"
        if other is not None:
            return _named(other)
    return "another process" if taken_by is None else _named(taken_by)


def holds(pid: int, file: Path) -> bool:
    """True if a process has a lock's file open; where the system does not show that, if it runs.

    What the file itself says can be another process, which is not to be signalled.
    """
    return _runs(pid) if not _PROC.exists() else _has_open(pid, file)


def _locking(file: Path) -> int | None:
    """The process that the system has noted for a lock of the file, if it runs."""
    try:
        wanted, lines = os.stat(file), (_PROC / "locks").read_text().splitlines()
    except OSError:
        return None
    # 1: FLOCK  ADVISORY  WRITE 4711 08:01:131085 0 EOF; a process of another container is 0
    device = f"{os.major(wanted.st_dev):02x}:{os.minor(wanted.st_dev):02x}"
    place = f"{device}:{wanted.st_ino}"
    pids = (int(words[4]) for words in map(str.split, lines) if words[5:6] == [place])
    return next((pid for pid in pids if pid > 0 and _runs(pid)), None)


def _named(pid: int) -> str:
    command, user = _command(pid), _user(pid)
    return f"process {pid}" + (f" of user {user}" if user else "") + command


def _user(pid: int) -> str:
    """The user of a process, if it is another one than ours."""
    try:
        uid = (_PROC / str(pid)).stat().st_uid
    except OSError:
        return ""
    return "" if uid == os.geteuid() else user_name(uid)


def _command(pid: int) -> str:
    """The command line of a process in brackets; empty where it cannot be had."""
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return ""
    text = " ".join(word.decode(errors="replace") for word in words)
    shown = "".join(one if one.isprintable() else "?" for one in text)
    return f" ({cut(shown, _MOST)})" if shown else ""


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


def _pids() -> Iterator[int]:
    try:
        names = os.listdir(_PROC)
    except OSError:  # no such folder on other systems
        return
    yield from sorted(int(name) for name in names if name.isdecimal() and int(name) != os.getpid())


def _has_open(pid: int, file: Path) -> bool:
    """True if a process has the file open, as far as it may be asked."""
    try:
        wanted, folder = os.stat(file), _PROC / str(pid) / "fd"
        opened = os.listdir(folder)
    except OSError:
        return False
    return any(_is(folder / name, wanted) for name in opened)


def _is(link: Path, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(link), wanted)
    except OSError:  # closed by now
        return False
