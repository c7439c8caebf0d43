"""A lease on a checkpoint that lies on no local disk: a file that its holder renews.

A process that finds one watches it for longer than that. If it has changed by then, its holder
lives; otherwise the holder has died, and the finder takes over. No two machines' clocks are
compared. A file system without an atomic create lets two write at once: each reads it again a while
later, and the last one that wrote has it. Should a holder have been frozen for so long that another
took over, Spark's own log admits one writer per batch, and the holder ends as soon as it sees the
other.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Callable
from typing import Any, Final

from streamlet.bounded import parsed
from streamlet.errors import StateLockedError
from streamlet.spark.hadoop_file import HadoopFile

#: How often a holder writes its lease, seconds.
RENEWAL_S: Final = 10.0
#: How long a lease that was found is watched, seconds.
WATCH_S: Final = 25.0
#: Between two looks at it, seconds.
_LOOK_S = 1.0
#: From writing a lease until it is read again, seconds: longer than from a look to a write.
_SETTLE_S = 2.0


class Lease:
    """A checkpoint held by this process until ``release``.

    Args:
        file: the lease's file in the checkpoint.
        checkpoint: its name, for messages.
        wait: blocks for so many seconds.
        notify: gets a line if it has to be waited.

    Raises:
        StateLockedError: a live process holds it; names its host and pid.
    """

    def __init__(
        self,
        file: HadoopFile,
        checkpoint: str,
        wait: Callable[[float], object],
        notify: Callable[[str], None],
    ) -> None:
        self._file, self._checkpoint, self._wait = file, checkpoint, wait
        self._fields: dict[str, Any] = {
            "owner": uuid.uuid4().hex,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "renewed": 0,
        }
        if self._is_left_behind(notify):
            self._file.write(self._content())
        elif not self._file.create(self._content()):
            raise self._held_by(self._file.read())
        self._wait(_SETTLE_S)
        self._check()

    def renew(self) -> None:
        """Write the lease again; due every ``RENEWAL_S``.

        Raises:
            StateLockedError: another process has taken over.
        """
        self._check()
        self._fields["renewed"] += 1
        self._file.write(self._content())

    def release(self) -> None:
        """Give others the checkpoint, unless another has it already."""
        if self._owner(self._file.read()) == self._fields["owner"]:
            self._file.delete()

    def _is_left_behind(self, notify: Callable[[str], None]) -> bool:
        """True if there is a lease of a process that has died; False if there is none."""
        found = self._file.read()
        if found is None:
            return False
        notify(
            f"{self._held_by(found)}; seeing for {WATCH_S:.0f} s whether that process lives: "
            "one that was killed leaves its lease behind"
        )
        for _ in range(round(WATCH_S / _LOOK_S)):
            self._wait(_LOOK_S)
            now = self._file.read()
            if now is None:
                return False
            if now != found:
                raise self._held_by(now)
        return True

    def _check(self) -> None:
        found = self._file.read()
        if self._owner(found) != self._fields["owner"]:
            raise self._held_by(found)

    def _content(self) -> bytes:
        return json.dumps(self._fields).encode()

    def _held_by(self, content: bytes | None) -> StateLockedError:
        fields = _fields(content)
        holder = f"process {fields['pid']} on {fields['host']}" if fields else "another process"
        return StateLockedError(f"the checkpoint {self._checkpoint} is held by {holder}")

    @staticmethod
    def _owner(content: bytes | None) -> object:
        return _fields(content).get("owner")


def _fields(content: bytes | None) -> dict[str, Any]:
    """The fields of a lease; none where there is no lease, or one that is being written."""
    try:
        found = parsed(content or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) and {"host", "pid"} <= found.keys() else {}
