"""``streamlet`` and ``python -m streamlet``."""

from __future__ import annotations

import gc
import signal
import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is still being loaded ends it without a traceback.

    For ``run`` the other signals wait until it takes them (``streamlet.runtime.signals``).
    """
    if sys.argv[1:2] == ["run"]:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGUSR1))
    try:
        from streamlet.tools.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    try:
        run()
    finally:
        gc.freeze()  # else Python looks through all that was loaded while it ends, for nothing


if __name__ == "__main__":
    main()
