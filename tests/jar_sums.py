"""``python -m tests.jar_sums GROUP:ARTIFACT:VERSION ... [--alone]``: hash sums of a set of jars.

Fetches them and prints what belongs into ``streamlet/broker/sums/NAME.sha256``. To be compared with
what the jars' authors publish before it is committed: from then on these files are what runs.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

from streamlet.broker import jars


def main(words: list[str]) -> None:
    """Print the sums; ``--alone`` leaves out what the jars depend on."""
    coordinates = [word for word in words if ":" in word]
    with tempfile.TemporaryDirectory() as folder:
        jars._resolve(coordinates[0], coordinates, Path(folder), "--alone" not in words)
        for jar in sorted((Path(folder) / "jars").iterdir()):
            print(f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
