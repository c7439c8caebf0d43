"""The extension that moves records in columns, and the reason where it is not there.

It is built when streamlet is installed on a machine with a C compiler. It makes clients by the C
interface of the librdkafka that confluent-kafka brings and has loaded, and brings no library of its
own. Everything that it lacks leads to confluent-kafka's client, and to a reason that
``streamlet --version --verbose`` prints.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import attrs
from confluent_kafka import KafkaError, KafkaException, cimpl

from streamlet.kafka.native.sources import digest
from streamlet.logs import get_logger

log = get_logger(__name__)

_EXTENSION = "streamlet.kafka.native._native"
_NOT_BUILT = (
    "the extension was not built: there was no C compiler when streamlet was installed, "
    "or no header of Python"
)
_OUTDATED = (
    "the extension was built of other sources than are there now; "
    f"{sys.executable} -m pip install -e {Path(__file__).parents[3]} builds it"
)


@attrs.frozen
class Native:
    """The extension, or the reason why there is none; ``version`` is librdkafka's."""

    module: ModuleType | None
    version: str
    reason: str


@cache
def native() -> Native:
    """Load the extension, once in a process."""
    if find_spec(_EXTENSION) is None:
        return Native(None, "", _NOT_BUILT)
    try:
        from streamlet.kafka.native import _native  # type: ignore[attr-defined]
    except ImportError as error:
        return Native(None, "", f"it cannot be loaded: {error}")
    sources = digest()
    if sources not in ("", getattr(_native, "SOURCES", None)):
        log.warning("Kafka client python: %s", _OUTDATED)
        return Native(None, "", _OUTDATED)
    try:
        version = _native.load(str(cimpl.__file__), KafkaError, KafkaException)
    except ImportError as error:
        return Native(None, "", str(error))
    return Native(_native, version, "")
