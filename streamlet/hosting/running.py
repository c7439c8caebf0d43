"""``Running``: the part of ``App`` that runs it in this process.

A run in the background is for notebooks, and for programs that ask its stores meanwhile. Its thread
ends with the process: what is under way is then stopped gracefully first.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from streamlet.absent import explains_misuse
from streamlet.arguments import calls_told_by_form
from streamlet.closing import Closing
from streamlet.config import Settings
from streamlet.errors import StreamletError, WrongValueError, error_text
from streamlet.types import ms_of

if TYPE_CHECKING:
    from streamlet.hosting.hosted import HostedApp
    from streamlet.hosting.run import OutputValue, Run


@explains_misuse
@dataclass(frozen=True, slots=True)
class RunStatus:
    """The state of an application's run in this process.

    ``state`` is Kafka Streams': CREATED (before the first run), REBALANCING, RUNNING,
    PENDING_SHUTDOWN, NOT_RUNNING, ERROR. ``tasks`` are those that run here. ``error`` is what ended
    a run in the background, in one line; None if nothing did.
    """

    state: str
    tasks: tuple[str, ...] = ()
    error: str | None = None


def _check_positive(call: str, **given: timedelta | float | None) -> None:
    """Refuse limits below 0, before anything is waited for.

    Raises:
        WrongValueError: there is one.
    """
    for name, one in given.items():
        if (one.total_seconds() if isinstance(one, timedelta) else one or 0) < 0:
            raise WrongValueError(f"{call}({name}={one}): expected 0 or more; None is no limit")


class _Background:
    """A run in a thread of its own."""

    def __init__(self, run: Run, name: str) -> None:
        self.run = run
        self.error: BaseException | None = None
        #: Its text, made before stop() raises it and adds lines of its caller to the traceback.
        self.error_text = ""
        self._raised = False
        self._thread = threading.Thread(target=self._work, name=f"streamlet-{name}", daemon=True)
        self._arguments: dict[str, object] = {}

    def start(self, **arguments: object) -> None:
        """Begin; ``arguments`` are those of ``Run.run``."""
        self._arguments = arguments
        atexit.register(self.end)
        self._thread.start()

    def _work(self) -> None:
        try:
            self.run.run(count=None, timeout_ms=None, **self._arguments)  # type: ignore[arg-type]
        except BaseException as error:  # told by status and raised by stop
            self.error_text = error_text(error)
            self.error = error

    def end(self, leave: bool = False) -> None:
        """Stop gracefully and wait for the end; what ended the run before that is in ``error``."""
        atexit.unregister(self.end)
        self.run.ask_to_stop(leave)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def raise_error(self) -> None:
        """Raise what ended the run, once."""
        if self.error is not None and not self._raised:
            self._raised = True
            raise self.error

    @property
    def is_over(self) -> bool:
        """True once the run has ended."""
        return not self._thread.is_alive()


@calls_told_by_form
class Running(Closing):
    """Runs of an application in this process, one at a time."""

    name: str
    _run: Run | None = None
    _background: _Background | None = None

    if TYPE_CHECKING:

        def load_settings(self, *, environ: Mapping[str, str] | None = None) -> Settings:
            """The settings of a run, of ``App``."""
            ...

        def _hosted(self, settings: Settings) -> HostedApp: ...

    def run(
        self,
        *,
        count: int | None = None,
        timeout: timedelta | float | None = None,
        settings: Settings | None = None,
        name: str | None = None,
        metrics_port: int | None = None,
        metrics_host: str = "127.0.0.1",
        wait_for_broker: timedelta | float | None = None,
    ) -> list[OutputValue]:
        """Run one worker in this thread until ``close``, Ctrl-C or one of the limits below.

        Ctrl-C once finishes the batch, commits and leaves the group; twice stops at once. At the
        start the run waits until a broker answers, and logs that it does.

        Args:
            count: stop once this many records were written to topics (at a batch's end), and under
                ``exactly_once`` committed.
            timeout: stop after this time, seconds or a ``timedelta``.
            settings: in place of the program's with ``STREAMLET_…`` variables over them.
            name: of the instance; the host's name if none is given.
            metrics_port: serve ``/metrics``, ``/health`` and ``/ready`` meanwhile; 0 takes any free
                port, ``metrics_url`` tells which.
            metrics_host: interface to serve them on; by default this machine's, ``0.0.0.0``: all.
            wait_for_broker: how long to wait at the start for a broker, seconds or a ``timedelta``;
                None is as long as it takes, but not longer than ``timeout``.

        Returns:
            The records written, decoded, at most the newest 100,000; none if neither ``count`` nor
            ``timeout`` was given. Where there are none, the log says what the run did instead.

        Raises:
            TimedOutError: no broker answered in time.
            StreamletError: what ended the run; state is as of the last commit.
            WrongTypeError: an argument is of another type.
        """
        _check_positive("run", count=count, timeout=timeout, wait_for_broker=wait_for_broker)
        run = self._new_run(settings)
        try:
            return run.run(
                count=count,
                timeout_ms=None if timeout is None else ms_of(timeout),
                name=name,
                metrics_port=metrics_port,
                metrics_host=metrics_host,
                wait_for_broker_ms=None if wait_for_broker is None else ms_of(wait_for_broker),
            )
        finally:
            self._run = None

    def start(
        self,
        *,
        settings: Settings | None = None,
        name: str | None = None,
        metrics_port: int | None = None,
        metrics_host: str = "127.0.0.1",
        wait_for_broker: timedelta | float | None = None,
    ) -> Self:
        """Run one worker in a thread of its own until ``stop``; returns at once.

        ``status`` tells how it goes, and ``stop`` raises what ended it. It is stopped gracefully
        with the process, and at the end of a block: ``with app.start(): ...``.

        Args:
            settings: as of ``run``, and so are the others.
            name: of the instance.
            metrics_port: where metrics are served.
            metrics_host: interface to serve them on.
            wait_for_broker: how long to wait at the start for a broker.

        Raises:
            StreamletError: the application runs already in this process.
            WrongTypeError: an argument is of another type.
        """
        _check_positive("start", wait_for_broker=wait_for_broker)
        wait_ms = None if wait_for_broker is None else ms_of(wait_for_broker)
        self._background = _Background(self._new_run(settings), self.name)
        self._background.start(
            name=name,
            metrics_port=metrics_port,
            metrics_host=metrics_host,
            wait_for_broker_ms=wait_ms,
        )
        return self

    def stop(self, *, leave: bool = False) -> None:
        """Stop a run gracefully as ``close`` does, then raise what ended one of ``start``.

        Args:
            leave: as of ``close``.

        Raises:
            StreamletError: what ended the run; state is as of the last commit.
        """
        self.close(leave=leave)
        if self._background is not None:
            self._background.raise_error()

    @property
    def status(self) -> RunStatus:
        """The state of the run in this process, or of the last one of ``start``."""
        run, background = self._run, self._background
        if background is not None and background.error is not None:
            return RunStatus("ERROR", error=background.error_text)
        if run is not None and self._is_under_way():
            # What ended a run in the background is known once it has ended.
            ending = run.state == "ERROR" and background is not None
            return RunStatus("PENDING_SHUTDOWN" if ending else run.state, run.tasks)
        return RunStatus("CREATED" if background is None else "NOT_RUNNING")

    def _is_under_way(self) -> bool:
        """True while a run is under way; its worker may not have begun."""
        background = self._background
        return self._run is not None and not (background is not None and background.is_over)

    def _new_run(self, settings: Settings | None) -> Run:
        # Clients are loaded when something runs: describing and testing need none.
        from streamlet.hosting.run import Run

        background = self._background
        if background is not None and background.is_over:
            self._background = self._run = None
        if self._run is not None:
            raise StreamletError(f"{self.name} runs already in this process")
        if settings is None:
            settings = self.load_settings(environ=os.environ)
        self._run = Run(self._hosted(settings))
        return self._run

    @property
    def metrics_url(self) -> str | None:
        """``http://host:port`` that a run serves its metrics on; None while it serves none."""
        run = self._run
        return None if run is None else run.metrics_url

    def close(self, *, leave: bool = False) -> None:
        """Stop a run gracefully and wait for its end; nothing if none is under way.

        Args:
            leave: it does not come back. Without this a static member (``group.instance.id``)
                keeps its tasks until its session is over; a dynamic one leaves in any case.
        """
        run, background = self._run, self._background
        if background is not None:
            background.end(leave)
        elif run is not None:
            run.stop(leave)

    def __exit__(self, *raised: object) -> None:
        if any(raised):
            self.close()
        else:
            self.stop()

    def drain(self, timeout: timedelta | float | None = None) -> None:
        """Let this run leave its group: it hands its tasks over while it works on, then ends.

        Others copy its state before they take over, so no task waits for a restore; with no other
        instance there it commits and stops. Waits for that; at once from a function that the run
        itself calls, and nothing if no run is under way.

        Args:
            timeout: how long to wait, seconds or a ``timedelta``. When it leaves without waiting
                for warm copies is ``scale.down.timeout.ms``.

        Raises:
            TimedOutError: it has not left in time; it goes on leaving.
        """
        run = self._run
        if run is not None:
            run.drain(None if timeout in (None, math.inf) else ms_of(timeout))

    def add_worker(self, name: str | None = None, settings: Settings | None = None) -> int:
        """Have an instance that runs on this machine start one worker process more.

        As ``addStreamThread`` in Kafka Streams, and ``streamlet workers add``: of an instance that
        ``streamlet run`` started with worker processes. It takes it within about a second.

        Args:
            name: of the instance, where several run here.
            settings: in place of the program's with ``STREAMLET_…`` variables over them.

        Returns:
            How many workers it is to have.

        Raises:
            NotFoundError: none runs here.
            ConfigError: several do.
            RefusedError: it has no worker processes, or cannot have more.
        """
        return self._change_workers(name, settings, 1)

    def remove_worker(self, name: str | None = None, settings: Settings | None = None) -> int:
        """Have an instance that runs on this machine end its last worker process, not its only one.

        As ``removeStreamThread`` in Kafka Streams, and ``streamlet workers remove``: it commits and
        leaves the group. Arguments, result and errors as of ``add_worker``.
        """
        return self._change_workers(name, settings, -1)

    def _change_workers(self, name: str | None, settings: Settings | None, by: int) -> int:
        from streamlet.hosting.worker_count import change
        from streamlet.state.instances import living

        used = settings or self.load_settings(environ=os.environ)
        return change(living(used.state_dir, self.name, name), by)
