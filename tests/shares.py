"""How much of what they make up tests try."""

from __future__ import annotations

import os
from typing import Final

#: A part of it is enough where the whole of it is tried beside, as on another Python.
SHARE: Final = float(os.environ.get("STREAMLET_TEST_SHARE", "1"))


def share_of(many: int) -> int:
    """So many examples, or seeds of histories; fewer of them where a share is asked for."""
    return max(1, round(many * SHARE))
