"""The shipped list of librdkafka's properties, compared with the librdkafka that is installed."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, libversion

from streamlet.config.client_properties import CLIENT_PROPERTIES

#: The first librdkafka with all properties of the list, 2.15.
_NEWEST = 0x020F0000
_SILENT = logging.getLogger("test-silent")
_SILENT.setLevel(logging.CRITICAL + 1)
#: What Python's client takes itself, of another type or for consumers only.
_PYTHON = frozenset({"logger", "on_commit", "on_delivery", "default.topic.config"})


def refused(name: str) -> str:
    """What the installed client says of a property, with a value that few take."""
    try:
        Producer({name: "streamlet-test", "logger": _SILENT})
    except KafkaException as error:
        cause: KafkaError = error.args[0]
        return cause.str()
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


@pytest.mark.skipif(libversion()[1] < _NEWEST, reason="an older client, with fewer properties")
@pytest.mark.parametrize("name", sorted(CLIENT_PROPERTIES - _PYTHON))
def test_the_client_knows_each_property_of_the_list(name: str) -> None:
    assert "No such configuration property" not in refused(name)


def test_the_client_refuses_a_name_that_is_not_of_the_list() -> None:
    assert "nonsense" not in CLIENT_PROPERTIES
    assert "No such configuration property" in refused("nonsense")


@pytest.mark.parametrize(
    "name", ["acks", "linger.ms", "compression.type", "fetch.min.bytes", "client.id", "debug"]
)
def test_what_users_set_most_is_in_the_list(name: str) -> None:
    assert name in CLIENT_PROPERTIES
