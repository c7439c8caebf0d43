"""Scenarios that the live page has played: one at a time, each by a process of its own.

What is played lasts as long as its file wants and uses a processor, so it is a process that can be
ended; and only ``streamlet ui`` offers it, which is no instance.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from tempfile import TemporaryDirectory

from streamlet.closing import Closing
from streamlet.logs import get_logger
from streamlet.state.query_errors import InvalidQueryError, QueryRefusedError

log = get_logger(__name__)

#: Bytes of a scenario, at most; pages that are kept; and how long one is played, s.
MOST_BYTES = 1 << 20
MOST_PAGES = 4
MOST_S = 120.0
_MOST_TEXT = 2_000


class Simulations(Closing):
    """Plays scenarios; for any thread.

    Args:
        command: plays the scenario file behind it, and writes a page: ``… FILE --html PAGE``.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)
        self._lock = threading.Lock()
        self._pages: dict[int, Future[bytes]] = {}
        self._number = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def begin(self, scenario: bytes) -> int:
        """Begin to play a scenario; the number of its page.

        Raises:
            InvalidQueryError: it is too large.
            QueryRefusedError: another one is being played.
        """
        if len(scenario) > MOST_BYTES:
            raise InvalidQueryError(f"a scenario has {MOST_BYTES:,} bytes at most")
        with self._lock:
            if self._closed or any(not one.done() for one in self._pages.values()):
                raise QueryRefusedError("another scenario is being played; wait for it")
            self._number += 1
            number, found = self._number, Future[bytes]()
            self._pages[number] = found
            while len(self._pages) > MOST_PAGES:
                del self._pages[next(iter(self._pages))]
        name = "streamlet-simulation"
        threading.Thread(target=self._play, args=(scenario, found), name=name, daemon=True).start()
        return number

    def page(self, number: int) -> bytes | None:
        """The page that plays a scenario; None: it is not there yet.

        Raises:
            InvalidQueryError: there is no such page any more, or the scenario cannot be played.
        """
        with self._lock:
            found = self._pages.get(number)
        if found is None:
            raise InvalidQueryError(f"there is no simulation {number} any more: play it again")
        return found.result() if found.done() else None

    def close(self) -> None:
        """End what is being played."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()

    def _play(self, scenario: bytes, found: Future[bytes]) -> None:
        try:
            with TemporaryDirectory(prefix="streamlet-simulation-") as folder:
                found.set_result(self._played(Path(folder), scenario))
        except InvalidQueryError as error:
            found.set_exception(error)
        except Exception as error:
            log.exception("a scenario cannot be played")
            found.set_exception(InvalidQueryError(f"it cannot be played: {error}"))

    def _played(self, folder: Path, scenario: bytes) -> bytes:
        """The page of a scenario; a run that breaks a rule has one, too."""
        file, page, said = (folder / name for name in ("scenario.json", "page.html", "said"))
        file.write_bytes(scenario)
        with said.open("wb") as errors:
            with self._lock:
                if self._closed:
                    raise InvalidQueryError("the server ends")
                self._process = process = subprocess.Popen(
                    [*self._command, str(file), "--html", str(page)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                )
            try:
                process.wait(MOST_S)
            except subprocess.TimeoutExpired:
                raise InvalidQueryError(f"it was not played within {MOST_S:g} s") from None
            finally:
                process.kill()
                process.wait()
        if page.exists():
            return page.read_bytes()
        text = said.read_text(errors="replace").replace(f"{folder}/", "")
        raise InvalidQueryError(text.strip()[-_MOST_TEXT:] or "it was ended before its end")
