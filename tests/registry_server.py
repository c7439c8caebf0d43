"""A schema registry in memory, on loopback, that can be told to answer badly.

It knows of Confluent's API what serdes ask for. What a real registry says to the same requests is
seen in ``tests/integration/test_registry.py``.
"""

from __future__ import annotations

import json
import ssl
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs

HOST = "127.0.0.1"


def mutual_tls(folder: Path) -> ssl.SSLContext:
    """TLS of a server that believes clients of ``ca.pem`` only; files of ``make_certificates``."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.pem")
    context.load_cert_chain(folder / "broker.pem", folder / "broker.key")
    context.verify_mode = ssl.CERT_REQUIRED
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # refuses a client before it sends anything
    return context


@attrs.define
class RegistryServer:
    """Schemas by id and subject; the requests that came; what it answers in place of the truth."""

    #: Bodies of schemas, by id from 1 on.
    schemas: list[dict[str, Any]] = attrs.field(factory=list)
    #: Ids of each subject's versions.
    subjects: dict[str, list[int]] = attrs.field(factory=dict)
    #: Schemas by UUID.
    guids: dict[str, int] = attrs.field(factory=dict)
    #: ``GET /schemas/ids/1`` and the like.
    asked: list[str] = attrs.field(factory=list)
    #: The header of that name of each request.
    authorizations: list[str | None] = attrs.field(factory=list)
    #: Status and body of all answers; None: the true ones.
    bad: tuple[int, bytes] | None = None
    #: How many requests get it; None: all.
    bad_count: int | None = None
    #: Further headers of bad answers.
    headers: dict[str, str] = attrs.field(factory=dict)
    #: Set: a bad answer stops before its last byte until then.
    stalled: threading.Event | None = None
    #: Speaks TLS by it.
    tls: ssl.SSLContext | None = None
    #: The ``Authorization`` that requests need; None: none.
    wanted: str | None = None
    #: The address of a real registry, which is asked in place of the one in memory.
    behind: str | None = None
    _server: ThreadingHTTPServer = attrs.field(init=False)

    def __enter__(self) -> RegistryServer:
        server = self

        class Answers(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                self.answer("GET", None)

            def do_POST(self) -> None:
                self.answer(
                    "POST", json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                )

            def answer(self, method: str, body: Any) -> None:
                server.asked.append(f"{method} {self.path}")
                server.authorizations.append(self.headers["Authorization"])
                further: dict[str, str] = {}
                bad = server.bad is not None and server.bad_count != 0
                if server.wanted not in (None, self.headers["Authorization"]):
                    status, raw = 401, b'{"error_code": 401, "message": "no"}'
                elif bad and server.bad is not None:
                    status, raw = server.bad
                    further = server.headers
                    if server.bad_count is not None:
                        server.bad_count -= 1
                elif server.behind is not None:
                    status, raw = server.passed_on(method, self.path, body)
                else:
                    status, found = server.truth(method, urlsplit(self.path).path, body)
                    raw = json.dumps(found).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(raw)), **further}.items():
                    self.send_header(name, value)
                self.end_headers()
                if bad and server.stalled is not None:
                    self.wfile.write(raw[:-1])
                    self.wfile.flush()
                    server.stalled.wait()
                else:
                    self.wfile.write(raw)

        class Server(ThreadingHTTPServer):
            def finish_request(self, request: Any, client_address: Any) -> None:
                """In the request's own thread: speak TLS, if that is asked for."""
                if server.tls is None:
                    super().finish_request(request, client_address)
                    return
                # A client that gives up, or that may not ask.
                with suppress(OSError), server.tls.wrap_socket(request, server_side=True) as own:
                    super().finish_request(own, client_address)

        self._server = Server((HOST, 0), Answers)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.stalled is not None:
            self.stalled.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{HOST}:{self._server.server_port}"

    def add(self, schema: Any, subject: str = "others", **further: Any) -> int:
        """Register a schema, as another program would; its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self._register(subject, {"schema": text, **further})

    def _register(self, subject: str, body: dict[str, Any]) -> int:
        if body not in self.schemas:
            self.schemas.append(body)
        found = self.schemas.index(body) + 1
        versions = self.subjects.setdefault(subject, [])
        if found not in versions:
            versions.append(found)
        return found

    def passed_on(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        """The answer of the registry behind this one."""
        sent = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        request = urllib.request.Request(f"{self.behind}{path}", sent, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def truth(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """The answer of a registry."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match method, parts:
            case "GET", ["schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                return 200, self.schemas[int(number) - 1]
            case "GET", ["schemas", "guids", guid] if guid in self.guids:
                return 200, self.schemas[self.guids[guid] - 1]
            case "GET", ["subjects", subject, "versions", version]:
                versions = self.subjects.get(subject, [])
                if 0 < int(version) <= len(versions):
                    return 200, self.schemas[versions[int(version) - 1] - 1]
            case "POST", ["subjects", subject, "versions"]:
                return 200, {"id": self._register(subject, body)}
            case "POST", ["subjects", subject] if body in self.schemas:
                found = self.schemas.index(body) + 1
                if found in self.subjects.get(subject, []):
                    return 200, {"id": found, "subject": subject, "schema": body["schema"]}
        return 404, {"error_code": 40403, "message": "Schema not found"}
