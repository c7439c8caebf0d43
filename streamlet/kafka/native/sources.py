"""The C sources of the extension, where they are there: a checkout has them, a wheel has not.

Imports nothing of streamlet: the build runs it by its path.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).parent / "extension"


def digest(folder: Path = FOLDER) -> str:
    """A hash of the sources, which a build of them has inside; empty if there are none."""
    files = sorted(path for path in folder.glob("*.[ch]") if path.is_file())
    whole = hashlib.sha256()
    for path in files:
        whole.update(f"{path.name} {path.stat().st_size}\n".encode())
        whole.update(path.read_bytes())
    return whole.hexdigest()[:16] if files else ""
