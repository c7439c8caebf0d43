"""Starts a server that ends with the process that started it.

A server must not outlive the process that started it, not even when that process is killed and can
run no code. So a shell waits beside it, reading from a pipe that only we can write to: the pipe's
end is the end of us, and then the shell kills the server and sweeps the data folder if it was ours.
(The kernel's death signal would be simpler, but it fires at the end of the *thread* that started
the server.) The shell is in the server's process group, so the server's number cannot be given to
another process as long as the shell may use it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

#: Arguments: the data folder to sweep or nothing, then the command. A line on standard input means
#: that we ended the broker ourselves; its end without one, that we are dead.
_WATCHED = """
swept=$1; shift
exec 3<&0 </dev/null
(
  read word <&3
  kill -KILL $$ 2>/dev/null
  if [ -z "$word" ] && [ -n "$swept" ]; then
    n=0
    while kill -0 $$ 2>/dev/null && [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done
    rm -rf "$swept"
  fi
) &
exec "$@" 3<&-
"""


def launched(
    command: Sequence[str], log: IO[bytes], swept: Path | None, *, detached: bool
) -> tuple[subprocess.Popen[bytes], int | None]:
    """Start a command in a session of its own, so that Ctrl-C in the terminal is ours to handle.

    Args:
        command: its words.
        log: takes all that it prints.
        swept: the folder to delete when it is killed because this process is gone.
        detached: let it live on when this process ends.

    Returns:
        The process, and our end of the watching shell's pipe, to which a line is written when the
        process has ended; None: no shell watches.
    """
    if detached:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return process, None
    read_end, leash = os.pipe()
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHED, "streamlet-broker", str(swept or ""), *command],
            stdin=read_end,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    finally:
        os.close(read_end)
    return process, leash
