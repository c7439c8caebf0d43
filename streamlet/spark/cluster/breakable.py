"""A start of Spark that a signal ends at once, with its JVM."""

from __future__ import annotations

import logging
import signal
from contextlib import ExitStack
from types import FrameType, TracebackType

from streamlet.signals import handled
from streamlet.spark.cluster.gateway import ask_jvms_to_end, await_jvms_end


class BreakableStart:
    """While the block runs, Ctrl-C or SIGTERM ends the JVM, and then the block, without an error.

    A call of Java's that is broken off leaves its connection to Java unusable, and the next call
    would wait for ever, as while no executor comes: so the JVM goes first. Nothing is lost, as a
    checkpoint is exact after a crash. A JVM that ``spark-submit`` started ends behind this process.
    Main thread only.
    """

    def __init__(self) -> None:
        #: True if a signal came; nothing may be asked of Spark then.
        self.broken = False
        self._handled = ExitStack()

    def __enter__(self) -> BreakableStart:
        numbers = (signal.SIGINT, signal.SIGTERM)
        self._handled.enter_context(handled(dict.fromkeys(numbers, self._on_signal)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._handled.close()
        if self.broken:
            await_jvms_end()
            logging.disable(logging.NOTSET)
        return self.broken

    def take_ctrl_c(self) -> None:
        """Take Ctrl-C back from a Spark session, which takes it for itself when it is made.

        Raises:
            KeyboardInterrupt: a signal came where nothing can be raised, as in a destructor.
        """
        signal.signal(signal.SIGINT, self._on_signal)
        if self.broken:
            raise KeyboardInterrupt

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.broken = True
        logging.disable(logging.ERROR)  # py4j has a trace for each call that is broken off
        ask_jvms_to_end()
        raise KeyboardInterrupt
