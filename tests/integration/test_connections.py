"""Each way to connect, by both clients, at a broker with a door for each; and tokens that end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import streamlet as sl
from streamlet.config import Settings
from streamlet.coordinator.events import FailureKind
from streamlet.coordinator.group_client import group_client
from streamlet.coordinator.ports import TransportError
from streamlet.errors import AuthenticationError, StreamletError
from streamlet.kafka.client import KafkaAdmin, sink_type, source_type
from streamlet.kafka.ports import NewTopic, OutgoingRecords
from streamlet.testing.broker import broker_choice
from streamlet.types import TopicPartition
from tests.integration.chaos.support import wait_for
from tests.integration.doors import DOORS, PASSWORD, Doors, doors, pack
from tests.kafka_clients import NATIVE_ONLY

pytestmark = pytest.mark.integration

WAIT_MS, WAIT_S = 120_000, 120
RECORDS = 200


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """The broker with its doors."""
    if broker_choice() != "embedded":
        pytest.skip("needs a broker with listeners of its own")
    with doors(tmp_path_factory.mktemp("doors")) as made:
        yield made


def connect(values: dict[str, Any]) -> None:
    """Ask something by each of the two clients."""
    settings = Settings.load(values)
    admin = KafkaAdmin(
        settings.bootstrap_servers, settings.client_config("admin"), timeout_ms=WAIT_MS
    )
    admin.topics()
    with group_client(settings) as transport:
        transport.check_version(WAIT_MS).result(WAIT_S)


@pytest.mark.parametrize("door", DOORS)
def test_both_clients_come_through_each_door(served: Doors, door: str) -> None:
    connect(served.settings(door))


def test_a_key_store_and_a_folder_of_cas_open_the_door(served: Doors) -> None:
    pytest.importorskip("cryptography", reason="needs the extra pkcs12")
    store, folder = pack(served.folder)
    connect(
        {
            "bootstrap.servers": served.at("mutual"),
            "security.protocol": "ssl",
            "ssl.ca.location": str(folder),
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": PASSWORD,
            "ssl.cipher.suites": "ECDHE-ECDSA-AES256-GCM-SHA384",
        }
    )


#: Settings of a door, another door, and what is to be set.
MISFITS = [
    ("open", "scram", "speaks TLS, and security.protocol = plaintext: set security.protocol = sas"),
    ("open", "plain", "asks for a login, and security.protocol = plaintext: set"),
    (
        "scram",
        "open",
        "does not speak TLS, and security.protocol = sasl_ssl: set security.protocol",
    ),
    (
        "mutual",
        "scram",
        "asks for a login, and security.protocol = ssl: set security.protocol = sas",
    ),
    (
        "plain",
        "open",
        "asks for no login, and security.protocol = sasl_plaintext: set security.protocol = plain",
    ),
]


@pytest.mark.parametrize(("settings", "door", "said"), MISFITS)
def test_settings_that_do_not_fit_the_listener_are_named_by_both_clients(
    served: Doors, settings: str, door: str, said: str
) -> None:
    """It was "is the broker running?" after 15 seconds."""
    for error in refusals({**served.settings(settings), "bootstrap.servers": served.at(door)}):
        assert said in str(error)
        assert not error.passing
        assert "Is the broker running" not in str(error)


@pytest.mark.parametrize(
    ("door", "own", "said"),
    [
        ("plain", {"sasl.password": "open-sesame"}, "look at sasl.mechanism, sasl.username and"),
        ("mutual", {"ssl.certificate.location": None, "ssl.key.pem": None}, "set ssl.certificate"),
        ("mutual", {"ssl.ca.location": None}, "set ssl.ca.location to it"),
        ("tokens", {"sasl.oauthbearer.client.secret": "open-sesame"}, "no such secret"),
    ],
)
def test_a_refusal_names_the_settings_to_look_at(
    served: Doors, door: str, own: dict[str, Any], said: str
) -> None:
    for error in refusals({**served.settings(door), **own}):
        assert said in str(error)
        assert "open-sesame" not in str(error)
        assert not error.passing


def refusals(values: dict[str, Any]) -> list[StreamletError]:
    """The errors of both clients."""
    settings = Settings.load(values)
    with pytest.raises(AuthenticationError) as of_admin:
        KafkaAdmin(
            settings.bootstrap_servers, settings.client_config("admin"), timeout_ms=WAIT_MS
        ).topics()
    with group_client(settings) as transport, pytest.raises(TransportError) as of_group:
        transport.check_version(WAIT_MS).result(WAIT_S)
    assert of_group.value.kind is FailureKind.AUTHENTICATION
    return [of_admin.value, of_group.value]


def test_a_function_gives_tokens_to_both_clients(served: Doors) -> None:
    asked: list[str] = []

    def tokens(config: str) -> tuple[str, float]:
        asked.append(config)
        return served.tokens.token("alice"), time.time() + served.tokens.life_s

    values: dict[str, Any] = {
        key: value
        for key, value in served.settings("tokens").items()
        if not key.startswith("sasl.oauthbearer")
    }
    own = {**values, "oauth_cb": tokens, "sasl.oauthbearer.config": "team=a"}
    connect(own)
    assert asked.count("team=a") >= 2


@NATIVE_ONLY
def test_a_function_is_asked_again_and_records_flow_on(served: Doors) -> None:
    """Longer than the broker lets anyone stay without a new token."""
    asked: list[str] = []

    def tokens(_: str) -> tuple[str, float]:
        asked.append(threading.current_thread().name)
        return served.tokens.token("alice"), time.time() + served.tokens.life_s

    own = {key: value for key, value in served.settings("tokens").items() if "bearer" not in key}
    config: dict[str, Any] = {**own, "oauth_cb": tokens}
    KafkaAdmin(served.broker.bootstrap_servers).create_topics([NewTopic("renewed", 1)])
    source = source_type("native", config)(own["bootstrap.servers"], config)
    sink = sink_type("native", config)(own["bootstrap.servers"], config)
    source.assign({TopicPartition("renewed", 0): 0})
    for times in (1, 2, 3):
        wait_for(lambda wanted=2 * times: len(asked) >= wanted, "both have asked again")
        sink.send(OutgoingRecords("renewed", [b"k"], [b"%d" % times]))
        sink.flush(WAIT_MS)
        wait_for(lambda: source.poll(9, 100), "the record is read")
    sink.close()
    source.close()


def test_tokens_are_renewed_under_load_and_no_member_leaves_for_it(
    served: Doors, tmp_path: Path
) -> None:
    """Half of the records are written before all clients have had another token, half behind it."""
    open_door = served.broker.bootstrap_servers
    KafkaAdmin(open_door).create_topics([NewTopic("lines", 2), NewTopic("counts", 2)])
    generations: list[int] = []

    def await_renewal() -> None:
        wait_for(lambda: begun(served) > 0, "a generation is begun")
        generations.append(begun(served))
        wanted = 2 * len(served.tokens.issued)
        wait_for(lambda: len(served.tokens.issued) >= wanted, "tokens are renewed")

    def write() -> None:
        producer = Producer({"bootstrap.servers": open_door})
        for number in range(RECORDS):
            if number == RECORDS // 2:
                await_renewal()
            producer.produce("lines", b"word", b"%d" % (number % 10))
            producer.flush()

    app = sl.App("renewing")
    lines = app.stream("lines", key=str, value=str)
    lines.group_by_key().count(store="counts").to_stream().to("counts")
    own = {"state.dir": str(tmp_path), "cache.max.bytes": "0", "commit.interval.ms": "100"}
    settings = Settings.load({**served.settings("tokens"), **own})
    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = app.run(count=RECORDS, timeout=WAIT_S, settings=settings)
    finally:
        writer.join()
    assert len(found) == RECORDS
    generations.append(begun(served))
    assert len(set(generations)) == 1


def begun(served: Doors) -> int:
    """How many generations of the group the broker has seen begin."""
    return served.broker.log_file.read_text(errors="replace").count("Stabilized group renewing")
