"""``streamlet`` and ``python -m streamlet``."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is still being loaded ends it without a traceback."""
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
