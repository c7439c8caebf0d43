"""Security settings: what is made of them, in whichever words they come."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import streamlet as sl
from streamlet.config import Settings, security_page
from streamlet.config.client_properties import CLIENT_PROPERTIES
from streamlet.config.security import ALIASES, OAUTH_FUNCTION, SETTINGS, is_security, resolve
from streamlet.errors import ConfigError

_KAFKA = "org.apache.kafka.common.security"
_PLAIN = f"{_KAFKA}.plain.PlainLoginModule"
_OAUTH = f"{_KAFKA}.oauthbearer.OAuthBearerLoginModule"
_TLS = {"security.protocol": "SSL"}
_SASL = {"security.protocol": "SASL_SSL"}
_LOGIN = {"sasl.username": "alice", "sasl.password": "s3cret"}
_OIDC = {
    "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
    "sasl.oauthbearer.client.id": "app",
    "sasl.oauthbearer.client.secret": "s3cret",
}


def for_clients(values: dict[str, Any]) -> dict[str, Any]:
    """What every client gets, without the protocol."""
    found = Settings.load(values).client_config("group")
    return {key: value for key, value in found.items() if key != "security.protocol"}


def refused(values: dict[str, Any]) -> tuple[str, ...]:
    """What is wrong with the settings, none of which is missing."""
    with pytest.raises(ConfigError) as error:
        Settings.load(values)
    return error.value.problems


def lacking(values: dict[str, Any]) -> tuple[str, ...]:
    """What the settings lack, as a client is to be opened."""
    settings = Settings.load(values)
    with pytest.raises(ConfigError) as error:
        settings.client_config("admin")
    return error.value.problems


def test_security_is_given_once_and_reaches_every_client() -> None:
    settings = Settings.load(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "plain",
            "sasl.username": "alice",
            "ssl.ca.location": "/ca.pem",
            "enable.ssl.certificate.verification": False,
        },
        environ={"STREAMLET_SASL_PASSWORD": "secret"},
    )
    for kind in ("consumer", "producer", "admin", "group"):
        assert settings.client_config(kind) == {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "ssl.ca.location": "/ca.pem",
            "enable.ssl.certificate.verification": "false",
            "sasl.password": "secret",
        }
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    "jaas",
    [
        f'{_PLAIN} required username="alice" password="s3cret";',
        f"{_PLAIN}   required username='alice'   password='s3cret';",
        f"  {_PLAIN} required\n  username = alice\n  password = s3cret ;",
        f'KafkaClient {{\n  {_PLAIN} required username="alice" password="s3cret";\n}};',
        f'{_PLAIN} required username="alice" password="s3cret"',
        f'{_PLAIN} Required username="alice" password="s3cret";;',
        f'{_PLAIN} required username="\\141lice" password="\\163\\63cret";',
        f'{_PLAIN} required \\\n  username="alice" \\\r\n  password="s3cret";',
        f'// of the cluster\n{_PLAIN} required /* a\nb */ username="alice"\n'
        '  password="s3cret"; // "rotated"',
        f'{_PLAIN} required username="\\u0061lice" password="s3cret";',
        pytest.param(
            f'{_PLAIN} required{" " * 9999}username="alice"{" " * 9999}password="s3cret" ;',
            id="much space",
        ),
    ],
)
def test_a_login_of_javas_clients_is_taken_as_people_paste_it(jaas: str) -> None:
    wanted = {"sasl.mechanism": "PLAIN", **_LOGIN}
    assert for_clients({**_SASL, "sasl.jaas.config": jaas}) == wanted
    named = {**_SASL, "sasl.jaas.config": jaas, "sasl.mechanism": "PLAIN"}
    assert for_clients(named) == wanted


@pytest.mark.parametrize(
    "password", ['a"b', "a;b", "a=b", " a b ", "a\\b", "a\\n", "{a}", "a'b", "a // b", "/* a */"]
)
def test_a_pasted_password_may_have_any_character(password: str, tmp_path: Path) -> None:
    escaped = password.replace("\\", "\\\\").replace('"', '\\"')
    file = tmp_path / "app.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.jaas.config=" + f"{_PLAIN} required \\\n"
        f'  username="alice" \\\n  password="{escaped}";\n'
    )
    found = Settings.load(file=file).client_config("group")
    assert (found["sasl.username"], found["sasl.password"]) == ("alice", password)


def test_escapes_in_a_pasted_password_are_those_of_java() -> None:
    for escaped, password in (
        (r"a\tb\n", "a\tb\n"),
        (r"\8\400\07\q", "8\x200\aq"),
        (r"\377", "\xff"),
    ):
        jaas = f"{_PLAIN} required username='alice' password='{escaped}';"
        assert for_clients({**_SASL, "sasl.jaas.config": jaas})["sasl.password"] == password


def test_other_logins_of_java_are_taken() -> None:
    scram = f'{_KAFKA}.scram.ScramLoginModule required username="alice" password="s3cret";'
    found = for_clients({**_SASL, "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": scram})
    assert found == {"sasl.mechanism": "SCRAM-SHA-512", **_LOGIN}

    oauth = (
        f"{_OAUTH} required clientId='app' clientSecret='s3cret' scope='kafka' "
        "extension_logicalCluster='lkc-1' extension_identityPoolId='pool-1';"
    )
    handler = f"{_KAFKA}.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
    pasted = {
        **_SASL,
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
        "sasl.login.callback.handler.class": handler,
        "sasl.jaas.config": oauth,
    }
    assert for_clients(pasted) == {
        **_OIDC,
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-1",
    }


_MSK = "software.amazon.msk.auth.iam"


@pytest.mark.parametrize(
    "pasted",
    [
        {"sasl.mechanism": "AWS_MSK_IAM"},
        {
            "sasl.mechanism": "AWS_MSK_IAM",
            "sasl.jaas.config": f"{_MSK}.IAMLoginModule required;",
            "sasl.client.callback.handler.class": f"{_MSK}.IAMClientCallbackHandler",
        },
        {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{_OAUTH} required;",
            "sasl.login.callback.handler.class": f"{_MSK}.IAMOAuthBearerLoginCallbackHandler",
        },
    ],
)
def test_the_ways_to_name_credentials_of_aws_are_one(pasted: dict[str, str]) -> None:
    assert for_clients({**_SASL, **pasted}) == {"sasl.mechanism": "AWS_MSK_IAM"}


_CERT = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n"


def test_stores_of_java_are_taken_if_they_are_pem() -> None:
    one_line = _CERT.strip().replace("\n", " ")
    assert for_clients(
        {
            **_TLS,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": one_line,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _CERT.replace("\n", "\\n"),
            "ssl.keystore.key": _CERT.replace("CERTIFICATE", "PRIVATE KEY"),
            "ssl.endpoint.identification.algorithm": "",
        }
    ) == {
        "ssl.ca.pem": _CERT,
        "ssl.certificate.pem": _CERT,
        "ssl.key.pem": _CERT.replace("CERTIFICATE", "PRIVATE KEY"),
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert for_clients(
        {**_TLS, "ssl.truststore.location": "/ca.crt", "ssl.keystore.location": "/client.pem"}
    ) == {
        "ssl.ca.location": "/ca.crt",
        "ssl.certificate.location": "/client.pem",
        "ssl.key.location": "/client.pem",
    }
    packed = {"ssl.keystore.location": "/client.p12", "ssl.keystore.password": "s3cret"}
    assert for_clients({**_TLS, **packed}) == packed


@pytest.mark.parametrize(
    ("values", "reasons"),
    [
        ({"ssl.truststore.location": "/a.jks"}, ["keytool -list -rfc"]),
        ({"ssl.truststore.location": "/a", "ssl.truststore.type": "PKCS12"}, ["openssl pkcs12"]),
        ({"ssl.keystore.location": "/a.jks"}, ["keytool -importkeystore"]),
        ({"ssl.enabled.protocols": "TLSv1.2"}, ["not needed: TLS 1.2 and 1.3"]),
        ({"sasl.login.class": "a.B"}, ["App(oauth=function)"]),
        ({"sasl.login.callback.handler.class": "my.Handler"}, ["App(oauth=function)"]),
        ({"sasl.login.refresh.window.factor": "0.5"}, ["renewed"]),
        ({"sasl.oauthbearer.assertion.file": "/a"}, ["App(oauth=function)"]),
        ({"sasl.kerberos.keytab": "/a"}, ["kinit"]),
        ({"ssl.engine.id": "pkcs11"}, ["group coordinator"]),
        ({"sasl.jaas.config": "s3cret"}, ["expected MODULE required"]),
        (
            {"sasl.jaas.config": f'"{_PLAIN} required password=s3cret;"'},
            ["quotes around the whole"],
        ),
        ({"sasl.jaas.config": f'{_PLAIN} required password=\\"s3cret\\";'}, ["not escaped"]),
        (
            {"sasl.jaas.config": f"{_PLAIN} required password=\u201cs3cret\u201d;"},
            ["straight quotes"],
        ),
        (
            {"sasl.jaas.config": f"{_PLAIN} required username='a', password='s3cret';"},
            ["without commas"],
        ),
        (
            {"sasl.jaas.config": f"{_PLAIN} required password='s3cret'; {_PLAIN} required;"},
            ["of one login module"],
        ),
        ({"sasl.jaas.config": "my.Module required password='s3cret';"}, ["Module is Java's own"]),
        ({"sasl.jaas.config": f"{_PLAIN} required pasword='s3cret';"}, ["option pasword"]),
        ({"sasl.jaas.config": f"{_PLAIN} required password='a's3cret=b;"}, ["expected MODULE"]),
        (
            {"sasl.jaas.config": f"{_OAUTH} required unsecuredLoginStringClaim_sub='a';"},
            ["without a signature"],
        ),
        (
            {"sasl.jaas.config": f"{_MSK}.IAMLoginModule required awsProfileName='a';"},
            ["AWS_PROFILE"],
        ),
        (
            {"sasl.jaas.config": f"{_PLAIN} required;", "sasl.mechanism": "SCRAM-SHA-256"},
            ["another sasl.mechanism"],
        ),
        (
            {
                "sasl.jaas.config": f"{_PLAIN} required password='s3cret';",
                "sasl.password": "S3cret",
            },
            ["another sasl.password"],
        ),
        ({"sasl.mechanism": "GSAPI"}, ["expected PLAIN or SCRAM-SHA-256"]),
        ({"security.protocol": "tls"}, ["expected plaintext or ssl"]),
        ({"ssl.key.pem": "s3cret"}, ["expected PEM"]),
        ({"ssl.certificate.pem": "s3cret"}, ["expected PEM"]),
        ({"sasl.password": "{{ S3CRET }}"}, ["the placeholder of a template"]),
        ({"ssl.ca.locaton": "/a"}, ["did you mean ssl.ca.location?"]),
        ({"sasl.usrname": "a", "ssl.nonsense": "s3cret"}, ["sasl.username?", "unknown setting"]),
        ({OAUTH_FUNCTION: "s3cret"}, ["expected a function"]),
        (
            {"sasl.mechanism": "PLAIN", "sasl.mechanisms": "SCRAM-SHA-512"},
            ["sasl.mechanisms: it is another word for sasl.mechanism"],
        ),
        ({OAUTH_FUNCTION: print, "sasl.mechanism": "PLAIN"}, ["for OAUTHBEARER, not PLAIN"]),
        ({"security.protocol": "ssl", "sasl.mechanism": "AWS_MSK_IAM"}, ["= sasl_ssl"]),
        ({"sasl.oauthbearer.token.endpoint.url": "idp/token"}, ["expected http"]),
    ],
)
def test_what_cannot_be_says_what_to_do_instead(values: dict[str, Any], reasons: list[str]) -> None:
    found = refused(values)
    assert len(found) == len(reasons)
    for problem, reason in zip(found, reasons, strict=True):
        assert reason in problem
        assert "s3cret" not in problem.lower()


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (_SASL, "sasl_ssl needs sasl.mechanism"),
        ({**_TLS, "ssl.key.location": "/k"}, "ssl.key.location: set ssl.certificate.location or"),
        ({"sasl.mechanism": "PLAIN", **_LOGIN}, "set security.protocol = sasl_ssl or sasl_plain"),
        ({"ssl.ca.location": "/a"}, "set security.protocol = ssl or sasl_ssl"),
        ({**_SASL, "sasl.mechanism": "PLAIN"}, "PLAIN needs sasl.username, sasl.password"),
        ({**_SASL, "sasl.mechanism": "OAUTHBEARER"}, "or App(oauth=function)"),
        (
            {**_SASL, "sasl.jaas.config": "a.ScramLoginModule required username=a password=b;"},
            "SCRAM-SHA-256 or SCRAM-SHA-512",
        ),
    ],
)
def test_what_is_missing_is_named_when_a_client_is_opened(
    values: dict[str, Any], reason: str
) -> None:
    """Not before: the program may have one part, and the environment of the run the other."""
    assert any(reason in problem for problem in lacking(values))


def test_a_program_and_its_operator_give_a_part_each() -> None:
    app = sl.App("a", config={**_SASL, "sasl.mechanism": "PLAIN", "sasl.username": "alice"})
    environ = {"STREAMLET_SASL_PASSWORD": " s3cret"}
    found = app.load_settings(environ=environ).client_config("producer")
    assert found["sasl.password"] == " s3cret"
    assert "s3cret" not in repr(app.load_settings(environ=environ))


def test_a_function_gets_tokens_for_every_client() -> None:
    def tokens(_: str) -> tuple[str, float]:
        return "token", 1.0

    app = sl.App("a", config=_SASL, oauth=tokens)
    for kind in ("consumer", "producer", "admin", "group"):
        assert app.settings.client_config(kind) == {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "OAUTHBEARER",
            OAUTH_FUNCTION: tokens,
        }


def test_every_word_of_librdkafka_on_security_has_its_row() -> None:
    theirs = {key for key in CLIENT_PROPERTIES if is_security(key)} | {OAUTH_FUNCTION}
    assert theirs - SETTINGS.keys() - ALIASES.keys() == {OAUTH_FUNCTION}
    assert SETTINGS.keys() <= CLIENT_PROPERTIES


def test_the_page_is_up_to_date() -> None:
    """Else run `python -m streamlet.config.security_page`."""
    text = security_page.PAGE.read_text("utf-8")
    assert security_page.with_tables(text) == text
    assert len(re.findall(r"^\| `s(?:sl|asl|ecurity)\.", text, re.MULTILINE)) > 60


#: The security settings of Java's clients, as the documentation of Kafka 4.2 lists them.
OF_JAVA = """
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.mechanism sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url security.protocol security.providers ssl.cipher.suites
    ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class
    ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key
    ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type
"""
#: Those of brokers, which come with a file that was written for one.
OF_BROKERS = """
    sasl.enabled.mechanisms sasl.mechanism.inter.broker.protocol sasl.server.callback.handler.class
    security.inter.broker.protocol ssl.client.auth
"""


@pytest.mark.parametrize("key", [*OF_JAVA.split(), *OF_BROKERS.split()])
def test_no_security_setting_of_java_is_unknown(key: str) -> None:
    """Some were, with a hint at one that has nothing to do with them."""
    found = resolve({key: "x"}, {})[1].problems
    assert not any("unknown setting" in one for one in found)
    assert any("of brokers" in one for one in found) is (key in OF_BROKERS.split())
