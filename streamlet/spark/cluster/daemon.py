"""The process from which a local Spark session forks its Python workers.

It is PySpark's own, but has loaded before the first fork what every worker of ours loads: pandas,
pyarrow, the topology and the tasks, most of a second's work for each. PySpark imports nothing
before a fork, so as not to fork threads; the only ones here are those of numpy's OpenBLAS, which
ends them before a fork, as for all users of ``multiprocessing``.
"""

from __future__ import annotations

import gc
import sys
import traceback
from importlib import import_module
from typing import TextIO

from streamlet.spark.cluster import executor_check

#: Modules that every worker needs.
LOADED = ("pandas", "pyarrow", "pyspark.worker", *executor_check.LOADED)


class Tracebacks:
    """The ``traceback`` of PySpark's daemon; it keeps quiet where Spark has hung up.

    A worker forked while the JVM ends, or whose task Spark has cancelled, cannot answer: over a
    Unix socket its first write fails, where over TCP it would go unnoticed.
    """

    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def print_exc() -> None:
        """Print the exception being handled, unless it says that Spark has hung up."""
        if not _hung_up():
            traceback.print_exc()


def keep_quiet() -> None:
    """Have the daemon that forked this process keep quiet, too, where it is PySpark's own.

    With such processes the driver plans, whatever ``spark.python.daemon.module`` says.
    """
    forked_by = vars(sys.modules["__main__"])
    if "manager" in forked_by:
        forked_by.update(_QUIET)


def _print(text: str, file: TextIO) -> None:
    """The ``print`` of PySpark's daemon, with which it tells of answers that failed."""
    if not _hung_up():
        print(text, file=file)


def _hung_up() -> bool:
    return isinstance(sys.exception(), (BrokenPipeError, ConnectionResetError))


#: Names of PySpark's daemon, and what stands for them.
_QUIET = {"traceback": Tracebacks, "print": _print}


def main() -> None:
    """Load the modules, then fork workers until Spark ends this process."""
    from pyspark import daemon

    vars(daemon).update(_QUIET)
    for module in LOADED:
        import_module(module)
    gc.freeze()  # a collection in a worker would copy all these pages
    daemon.manager()


if __name__ == "__main__":
    main()
