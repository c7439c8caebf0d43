"""Confluent's schema registry, or one with its API, such as Apicurio or Karapace."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from streamlet.arguments import calls_told_by_form
from streamlet.clock import Clock, SystemClock
from streamlet.errors import (
    ConfigError,
    RegistryError,
    SerdeError,
    UnreachableRegistryError,
    error_text,
)
from streamlet.given_files import check_file
from streamlet.registry.connection import (
    RegistryAnswer,
    RegistryConnection,
    basic,
    credentials_in,
    shown_url,
    urls_of,
)
from streamlet.registry.kept import Kept
from streamlet.registry.schemas import RegistrySchema, SchemaKind, SchemaReference
from streamlet.retries import Retries
from streamlet.tls_files import load_identity
from streamlet.visible import VISIBLE_ASCII

T = TypeVar("T")

#: How long an id that is not there is not asked for again, ms.
_UNKNOWN_MS = 10_000
#: How long a schema is not asked for again while the registry is away, at first and at most, ms.
_AWAY_MS = 900, 10_000
#: References of one schema, in all, and characters that it has with them.
_MOST_REFERENCES, _MOST_CHARACTERS = 200, 8 << 20
_NOT_THERE = frozenset({404, 40401, 40402, 40403})
_KINDS: dict[object, SchemaKind] = {"AVRO": "AVRO", "JSON": "JSON", "PROTOBUF": "PROTOBUF"}


@calls_told_by_form
class Registry:
    """A schema registry with Confluent's API, asked once for each schema.

    The id of a schema never changes its meaning, so it is kept; ids under subjects are asked for
    again after ``max_age_ms``, and an id that is not there after 10 s. Up to 1,000 are kept
    of each. A request is tried three times; while the registry is away a schema is asked for once
    in a second, and later once in ten.

    Args:
        url: such as ``http://localhost:8081``; several of one registry with commas between them.
            ``user:password@`` before the host is taken as ``username`` and ``password``.
        username: for basic authentication.
        password: for basic authentication.
        token: for ``Authorization: Bearer``; a function is asked for it with each request.
        ca: file of the authorities that sign the registry's certificate; None: those of the system.
        certificate: file of this client's own certificate.
        key: file of that one's key.
        timeout_ms: how long one try of a request may take.
        max_age_ms: how long an id under a subject is taken as it was.
        clock: for tests.

    Raises:
        ConfigError: an address, a file or a combination cannot be.
    """

    def __init__(
        self,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        token: str | Callable[[], str] | None = None,
        ca: str | Path | None = None,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
        timeout_ms: int = 5_000,
        max_age_ms: int = 300_000,
        clock: Clock | None = None,
    ) -> None:
        urls = urls_of(url)
        login = credentials_in(urls[0]) if username is None else (username, password or "")
        if login is not None and token is not None:
            raise ConfigError(["schema registry: give username and password, or token, not both"])
        self._connection = RegistryConnection(
            urls, _authorization(login, token), _tls(ca, certificate, key), timeout_ms
        )
        self._clock = SystemClock() if clock is None else clock
        self._max_age_ms = max_age_ms
        #: Schemas by the paths that they were asked for by.
        self._schemas: Kept[str, RegistrySchema] = Kept()
        #: Paths of schemas that are not there: what to say, and until when, ms.
        self._unknown: Kept[str, tuple[str, int]] = Kept()
        #: Paths of schemas that were not answered: what to say, until when, ms, and how often.
        self._away: Kept[str, tuple[str, int, int]] = Kept()
        #: Ids of schemas under subjects, and when they were asked for, ms.
        self._ids: Kept[tuple[str, RegistrySchema, bool], tuple[int, int]] = Kept()

    def __repr__(self) -> str:
        return f"Registry({shown_url(self._connection.urls[0])})"

    @classmethod
    def from_environment(cls) -> Registry:
        """The registry that environment variables name.

        ``SCHEMA_REGISTRY_URL``; ``SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO`` (``user:password``) or
        ``SCHEMA_REGISTRY_TOKEN``; ``SCHEMA_REGISTRY_CA``, ``SCHEMA_REGISTRY_CERTIFICATE`` and
        ``SCHEMA_REGISTRY_KEY``, files.

        Raises:
            ConfigError: none is named.
        """
        login = os.environ.get("SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO", "").partition(":")
        return cls(
            os.environ.get("SCHEMA_REGISTRY_URL", ""),
            username=login[0] or None,
            password=login[2] or None,
            token=os.environ.get("SCHEMA_REGISTRY_TOKEN") or None,
            ca=os.environ.get("SCHEMA_REGISTRY_CA") or None,
            certificate=os.environ.get("SCHEMA_REGISTRY_CERTIFICATE") or None,
            key=os.environ.get("SCHEMA_REGISTRY_KEY") or None,
        )

    def by_id(self, schema_id: int) -> RegistrySchema:
        """The schema with this id.

        Raises:
            SerdeError: there is none.
            RegistryError: the registry refuses us.
            UnreachableRegistryError: it does not answer.
        """
        return self._schema(f"/schemas/ids/{schema_id}", f"schema id {schema_id}")

    def by_guid(self, guid: str) -> RegistrySchema:
        """The schema with this UUID; as ``by_id``."""
        return self._schema(f"/schemas/guids/{quote(guid, safe='')}", f"schema {guid}")

    def id_of(self, subject: str, schema: RegistrySchema, *, register: bool) -> int:
        """The id of a schema under a subject, registered there if ``register`` and it is not.

        Raises:
            RegistryError: it is not there, not compatible with earlier versions, or not valid.
            UnreachableRegistryError: the registry does not answer.
        """
        known = self._ids.get((subject, schema, register))
        now_ms = self._clock.now_ms()
        if known is not None and now_ms - known[1] < self._max_age_ms:
            return known[0]
        try:
            found = self._asked_id(subject, schema, register)
        except UnreachableRegistryError:
            if known is None:
                raise
            found = known[0]  # ids do not change: an old one is as good
        self._ids.keep((subject, schema, register), (found, now_ms))
        return found

    def _asked_id(self, subject: str, schema: RegistrySchema, register: bool) -> int:
        body: dict[str, Any] = {"schema": schema.text}
        if schema.kind != "AVRO":  # Confluent's registries before 5.5 know no other field
            body["schemaType"] = schema.kind
        if schema.references:
            body["references"] = [
                {"name": one.name, "subject": one.subject, "version": one.version}
                for one in schema.references
            ]
        path = f"/subjects/{quote(subject, safe='')}"
        answer = self._connection.ask("POST", f"{path}/versions" if register else path, body)
        if answer.status >= 400:
            raise self._refused(subject, answer, register)
        return self._number(answer, "id")

    def _refused(self, subject: str, answer: RegistryAnswer, register: bool) -> RegistryError:
        where = self._connection.shown
        if not register and answer.code in _NOT_THERE:
            return RegistryError(
                f"{where} has no such schema under the subject {subject}: register it there first, "
                "or let streamlet do so (register=True)"
            )
        if answer.status == 409:
            return RegistryError(
                f"{where} refuses the schema for the subject {subject}, since it is not compatible "
                f"with those before it: {answer.message}; a new field needs a default"
            )
        return RegistryError(f"{where} refuses the schema for {subject}: {answer.message}")

    def _schema(self, path: str, what: str) -> RegistrySchema:
        known = self._schemas.get(path)
        if known is not None:
            return known
        unknown = self._unknown.get(path)
        if unknown is not None and self._clock.now_ms() < unknown[1]:
            raise SerdeError(unknown[0])
        answer = self._answer(path)
        if answer.code in _NOT_THERE:
            text = f"{self._connection.shown} has no {what}: is it the one of this topic's writers?"
            self._unknown.keep(path, (text, self._clock.now_ms() + _UNKNOWN_MS))
            raise SerdeError(text)
        if answer.status >= 400:
            raise RegistryError(f"{self._connection.shown}: {what}: {answer.message}")
        found = self._with_references(self._read(answer))
        self._schemas.keep(path, found, found.characters)
        return found

    def _answer(self, path: str) -> RegistryAnswer:
        """The answer to a request for a schema.

        While there is none those who wait for it ask in turn: each request may take seconds, in
        which the tasks beside them stand still.
        """
        text, until_ms, failures = self._away.get(path) or ("", 0, 0)
        if failures and self._clock.now_ms() < until_ms:
            raise UnreachableRegistryError(text)
        try:
            answer = self._connection.ask("GET", path, once=failures > 0)
        except UnreachableRegistryError as error:
            until_ms = self._clock.now_ms() + Retries(*_AWAY_MS).pause_ms(failures + 1)
            self._away.keep(path, (str(error), until_ms, failures + 1))
            raise
        self._away.drop(path)
        return answer

    def _with_references(self, schema: RegistrySchema) -> RegistrySchema:
        """The schema with all that it refers to, each behind those that it needs itself."""
        names: dict[str, str] = {}
        asked: set[SchemaReference] = set()
        characters = len(schema.text)

        def gather(references: tuple[SchemaReference, ...]) -> None:
            nonlocal characters
            for one in references:
                if one in asked:
                    continue
                asked.add(one)
                if len(asked) > _MOST_REFERENCES:
                    raise SerdeError(f"the schema refers to more than {_MOST_REFERENCES} others")
                path = f"/subjects/{quote(one.subject, safe='')}/versions/{one.version}"
                answer = self._answer(path)
                if answer.status >= 400:
                    raise SerdeError(
                        f"{self._connection.shown} has no version {one.version} of {one.subject}, "
                        f"to which a schema refers as {one.name}: {answer.message}"
                    )
                inner = self._read(answer)
                characters += len(inner.text)
                if characters > _MOST_CHARACTERS:
                    raise SerdeError(
                        f"the schema has more than {_MOST_CHARACTERS:,} characters with those that "
                        "it refers to"
                    )
                gather(inner.references)
                names.setdefault(one.name, inner.text)

        gather(schema.references)
        return RegistrySchema(schema.kind, schema.text, schema.references, tuple(names.items()))

    def _read(self, answer: RegistryAnswer) -> RegistrySchema:
        """The schema in an answer.

        Raises:
            UnreachableRegistryError: it has none.
        """
        body = answer.body if isinstance(answer.body, dict) else {}
        kind, text = body.get("schemaType") or "AVRO", body.get("schema")
        references = body.get("references") or []
        if not isinstance(kind, str) or kind not in _KINDS:
            raise self._senseless()
        if not isinstance(text, str) or not isinstance(references, list):
            raise self._senseless()
        return RegistrySchema(_KINDS[kind], text, tuple(map(self._reference, references)))

    def _reference(self, given: Any) -> SchemaReference:
        found = given if isinstance(given, dict) else {}
        name, subject, version = (found.get(part) for part in ("name", "subject", "version"))
        if isinstance(name, str) and isinstance(subject, str) and type(version) is int:
            return SchemaReference(name, subject, version)
        raise self._senseless()

    def _number(self, answer: RegistryAnswer, name: str) -> int:
        found = answer.body.get(name) if isinstance(answer.body, dict) else None
        if type(found) is not int or not 0 <= found < 1 << 31:
            raise self._senseless()
        return found

    def _senseless(self) -> UnreachableRegistryError:
        return UnreachableRegistryError(
            f"{self._connection.shown} answers with what is no schema: is it a schema registry?"
        )


def _authorization(
    login: tuple[str, str] | None, token: str | Callable[[], str] | None
) -> Callable[[], str | None]:
    if login is not None:
        header = basic(*login)
        return lambda: header
    if callable(token):
        return lambda: _of_function(token)
    given = None if token is None else _bearer(token)
    return lambda: given


def _of_function(function: Callable[[], str]) -> str:
    try:
        return _bearer(function())
    except Exception as error:
        raise UnreachableRegistryError(
            "the schema registry cannot be asked, since the function that gets its tokens failed: "
            f"{error_text(error)}"
        ) from error


def _bearer(token: object) -> str:
    """The header of a token. One that cannot be sent is in no message: it is a secret."""
    text = token.strip() if isinstance(token, str) else ""
    if not VISIBLE_ASCII.fullmatch(text):
        raise ConfigError(
            ["schema registry: the token is to be of visible ASCII characters, without spaces"]
        )
    return f"Bearer {text}"


def _tls(
    ca: str | Path | None, certificate: str | Path | None, key: str | Path | None
) -> ssl.SSLContext | None:
    if key is not None and certificate is None:
        raise ConfigError(["schema registry: key= without certificate="])
    if ca is None and certificate is None:
        return None
    try:
        if ca is not None:
            check_file(ca)
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            load_identity(context, str(certificate), None if key is None else str(key))
    except (OSError, ValueError) as error:  # a name that no file has, too
        raise ConfigError([f"schema registry: ca, certificate or key: {error}"]) from error
    return context


@cache
def default_registry() -> Registry:
    """The registry of the environment, one for all serdes without their own."""
    return Registry.from_environment()
