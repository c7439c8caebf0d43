"""Files that users name, of which one has no end."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlet.config import Settings
from streamlet.coordinator.tls import TlsProblem, _unpacked
from streamlet.errors import ConfigError
from streamlet.reset.start import StartPosition
from streamlet.testing.simulation import read_scenario

ENDLESS = Path("/dev/zero")


def test_a_file_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    for read in (
        lambda: Settings.load(file=ENDLESS),
        lambda: read_scenario(ENDLESS),
        lambda: StartPosition.from_file(ENDLESS),
    ):
        with pytest.raises(ConfigError, match=r"/dev/zero: .*it has more than 16,777,216 bytes"):
            read()
    with pytest.raises(TlsProblem, match="it has more than"):
        _unpacked({"ssl.keystore.location": str(ENDLESS)})
