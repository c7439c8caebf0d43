"""``python -m streamlet`` is ``streamlet``."""

from streamlet.tools.main import main

if __name__ == "__main__":
    main()
