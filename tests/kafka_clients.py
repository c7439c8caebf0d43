"""The clients of Kafka that a test is run with, by the setting ``kafka.client``."""

from __future__ import annotations

import pytest

from streamlet.kafka.native.library import native

NATIVE_ONLY = pytest.mark.skipif(
    native().module is None, reason=f"the extension is not there: {native().reason}"
)

#: Both, as parameters.
CLIENTS = ("python", pytest.param("native", marks=NATIVE_ONLY))

#: For a test that has an argument ``client``: all that holds of one holds of the other.
EACH_CLIENT = pytest.mark.parametrize("client", CLIENTS)
