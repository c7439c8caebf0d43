"""Files that users name, of which one has no end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from streamlet.bounded import MORE_PROBLEMS, MOST_PROBLEMS
from streamlet.config import Settings
from streamlet.config.sources import file_entries
from streamlet.coordinator.security import client_settings
from streamlet.coordinator.tls import TlsProblem, _unpacked, tls_context
from streamlet.errors import ConfigError, SerdeError
from streamlet.kafka.client import KafkaAdmin, KafkaSink, KafkaSource
from streamlet.kafka.oidc import TokenError, ask_endpoint
from streamlet.registry import Registry
from streamlet.reset.start import StartPosition
from streamlet.serdes import avro
from streamlet.testing.simulation import read_scenario
from streamlet.web import tls
from tests.certificates import EC, LOOPBACK, self_signed

ENDLESS = Path("/dev/zero")
NO_FILE = "it is a device or a pipe, not a file"


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


def test_a_schema_without_an_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    with pytest.raises(SerdeError, match=r"cannot read the schema /dev/zero: .*it has more than"):
        avro(ENDLESS)
    (tmp_path / "Order.avsc").write_text('{"type": "array", "items": "Address"}')
    (tmp_path / "Address.avsc").symlink_to(ENDLESS)
    with pytest.raises(SerdeError, match="Address"):
        avro(tmp_path / "Order.avsc")


@pytest.mark.parametrize("client", [KafkaAdmin, KafkaSink, KafkaSource])
@pytest.mark.parametrize(
    "key",
    [
        *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location"),
        *("ssl.keystore.location", "ssl.crl.location"),
    ],
)
def test_no_client_is_made_with_a_file_of_tls_without_an_end(
    client: Callable[..., object], key: str
) -> None:
    config = {"security.protocol": "ssl", key: str(ENDLESS)}
    with pytest.raises(ConfigError, match=f"{key} = /dev/zero: cannot be read .{NO_FILE}"):
        client("localhost:1", config)


def _of_endpoint(**authorities: str) -> dict[str, str]:
    return {
        **{"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"},
        **{f"sasl.oauthbearer.client.{name}": "x" for name in ("id", "secret")},
        "sasl.oauthbearer.token.endpoint.url": "https://localhost:1/token",
        **{"sasl.oauthbearer.method": "oidc"},
        **{f"https.ca.{name}": given for name, given in authorities.items()},
    }


@pytest.mark.parametrize("name", ["endless", "absent", "text", "pem"])
def test_authorities_of_a_token_endpoint_are_refused_by_one_sentence(
    name: str, tmp_path: Path
) -> None:
    absent, text = tmp_path / "absent", tmp_path / "text"
    text.write_text("no certificate")
    config, sentence = {
        "endless": (
            _of_endpoint(location=str(ENDLESS)),
            "https.ca.location = /dev/zero: cannot be read (it is a device or a pipe, not a file)",
        ),
        "absent": (
            _of_endpoint(location=str(absent)),
            f"https.ca.location = {absent}: cannot be read (No such file or directory)",
        ),
        "text": (
            _of_endpoint(location=str(text)),
            f"https.ca.location = {text}: it is not PEM with certificates",
        ),
        "pem": (_of_endpoint(pem="none"), "https.ca.pem: it is not PEM with certificates"),
    }[name]
    for use in (
        lambda: KafkaAdmin("localhost:1", config),
        lambda: KafkaSource("localhost:1", config),
        lambda: client_settings(config, "localhost:1"),
        lambda: ask_endpoint(config, 0),
    ):
        with pytest.raises((ConfigError, TokenError)) as refused:
            use()
        assert str(refused.value) == sentence
    assert isinstance(refused.value, TokenError)
    assert refused.value.final, "it would be the same however often it is asked"


@pytest.mark.parametrize("given", ["probe", "a folder"])
def test_authorities_of_a_token_endpoint_may_be_the_systems_or_a_folder(
    given: str, tmp_path: Path
) -> None:
    config = _of_endpoint(location=str(tmp_path) if given == "a folder" else given)
    client_settings(config, "localhost:1")
    with pytest.raises(TokenError, match="no answer from the token endpoint"):
        ask_endpoint(config, 0)


@pytest.mark.parametrize("key", ["ssl.ca.location", "ssl.crl.location", "ssl.certificate.location"])
def test_the_connection_to_the_group_reads_no_file_of_tls_without_an_end(key: str) -> None:
    with pytest.raises(TlsProblem, match=f"{key}.*: cannot be read .{NO_FILE}"):
        tls_context({key: str(ENDLESS)})


def test_files_of_http_and_of_a_registry_have_an_end() -> None:
    given = str(ENDLESS)
    with pytest.raises(ConfigError, match=f"--ca = /dev/zero: {NO_FILE}"):
        tls.with_files(None, given, ("", "--ca"))
    with pytest.raises(ConfigError, match=f"--certificate = /dev/zero and /dev/zero: {NO_FILE}"):
        tls.with_files((given, given), None, ("--certificate", ""))
    for files in ({"ca": ENDLESS}, {"certificate": ENDLESS}):
        with pytest.raises(ConfigError, match=NO_FILE):
            Registry("https://localhost:1", **files)


def test_a_pipe_and_a_file_beyond_the_bound_are_no_files_of_tls(tmp_path: Path) -> None:
    """Nobody writes to the pipe, and OpenSSL would wait for it."""
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    with large.open("wb") as opened:
        opened.truncate((16 << 20) + 1)
    for file, reason in ((pipe, NO_FILE), (large, "it has more than 16,777,216 bytes")):
        with pytest.raises(ConfigError, match=reason):
            tls.with_files(None, str(file))


def test_a_key_with_a_password_is_refused_and_nothing_asks_for_it(tmp_path: Path) -> None:
    """OpenSSL would ask on the terminal, where nobody answers."""
    folder = self_signed(tmp_path, EC, *LOOPBACK, "-passout", "pass:x")
    pair = str(folder / "ca.pem"), str(folder / "key.pem")
    with pytest.raises(ConfigError, match="the key has a password; write it without one"):
        tls.with_files(pair, None)
    with pytest.raises(ConfigError, match="the key has a password; write it without one"):
        Registry("https://localhost:1", certificate=pair[0], key=pair[1])


def test_of_a_file_with_millions_of_problems_some_are_told(tmp_path: Path) -> None:
    """All of them would fill the memory, and the terminal."""
    file = tmp_path / "given"
    for text in ("x\n", "unknown{}=1\n"):
        file.write_text("".join(text.format(n) for n in range(20_000)))
        with pytest.raises(ConfigError) as refused:
            Settings.load(file=file)
        assert len(refused.value.problems) == 1 + MOST_PROBLEMS
        assert refused.value.problems[-1] == MORE_PROBLEMS
    with pytest.raises(ConfigError) as refused:
        StartPosition.from_file(file)
    assert len(refused.value.problems) == 20
    unknown = ",".join(f'"unknown{n}":1' for n in range(20_000))
    for text in (f"{{{unknown}}}", f'{{"steps":[{"1," * 20_000}1]}}'):
        file.write_text(text)
        with pytest.raises(ConfigError) as refused:
            read_scenario(file)
        assert len(refused.value.problems) == 1 + MOST_PROBLEMS


def test_a_value_on_a_million_lines_is_read_in_time_of_its_length(tmp_path: Path) -> None:
    """Each line once copied all before it: that takes hours."""
    file = tmp_path / "given"
    file.write_text("application.id=" + "a\\\n" * 1_000_000 + "b")
    [(key, value, where)] = file_entries(file, [])
    assert (key, len(value), where) == ("application.id", 1_000_001, f"{file}:1: application.id")
    file.write_text("\\\n# a comment\na = \\\n b\\\n\\\n\nc=d\\\n")
    assert [entry[:2] for entry in file_entries(file, [])] == [("a", "b"), ("c", "d")]


def test_a_name_of_a_million_characters_is_told_by_its_beginning(tmp_path: Path) -> None:
    file, name = tmp_path / "given", "k" * 1_000_000
    for text, read in (
        (f"{name}=1", lambda: Settings.load(file=file)),
        (f'{{"{name}": 1}}', lambda: read_scenario(file)),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=r"kkk…: ") as refused:
            read()
        assert len(str(refused.value)) < 1_000
