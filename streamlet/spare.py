"""A spare worker process: loads all that a worker needs, then does as ``streamlet.process``.

It loads in a thread of low priority, so that those that work are not kept from the processors. Its
main thread has the usual priority when the orders come.
"""

from __future__ import annotations

import sys
import threading
from importlib import import_module

from streamlet.runtime.background import lower_priority


def main() -> int:
    """Load, then wait for orders and run one worker to its end; the exit code."""
    loading = threading.Thread(target=_load, name="streamlet-load")
    loading.start()
    loading.join()
    return int(import_module("streamlet.process").main())


def _load() -> None:
    lower_priority()
    import_module("streamlet.process")


if __name__ == "__main__":
    sys.exit(main())
