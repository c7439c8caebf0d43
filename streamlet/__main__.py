"""``streamlet`` and ``python -m streamlet``."""

from __future__ import annotations

import gc
import os
import signal
import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is still being loaded ends it without a traceback.

    For ``run`` signals wait until it takes them (``streamlet.hosting.signals``), so that they end a
    start as they end the run, by exit code 0.
    """
    open_streams()
    if sys.argv[1:2] == ["run"]:
        stops = signal.SIGINT, signal.SIGTERM, signal.SIGUSR1
        signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    try:
        from streamlet.tools.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    try:
        run()
    finally:
        gc.freeze()  # else Python looks through all that was loaded while it ends, for nothing


def open_streams() -> None:
    """Open each standard stream that is closed (``<&-``) on the null device.

    Commands and libraries expect them; and a file or a connection that is opened later would get
    the number of such a stream, with whatever is printed there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)  # noqa: SIM115 - it is open as long as the process
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


if __name__ == "__main__":
    main()
