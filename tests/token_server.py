"""A server that gives tokens for client credentials, on loopback.

The tokens are without a signature, which Kafka takes in its settings for tests: what is tried are
the clients, which pass a token on and never look at its signature.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import attrs

HOST = "127.0.0.1"
SECRET = "the-secret-of-the-application"
#: Seconds that a token is good for.
LIFE_S = 8


@attrs.define
class TokenServer:
    """Gives tokens for client credentials; the answers are counted by who asked."""

    life_s: float = LIFE_S
    issued: list[str] = attrs.field(factory=list)
    #: What it answers in place of a token.
    body: bytes | None = None
    _server: ThreadingHTTPServer = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        server = self

        class Answers(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def do_POST(self) -> None:
                """Give a token."""
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                login = base64.b64decode(self.headers["Authorization"].split()[-1]).decode()
                user, _, secret = login.partition(":")
                assert form["grant_type"] == ["client_credentials"]
                if server.body is not None:
                    self.answer(200, server.body)
                elif secret == SECRET:
                    server.issued.append(f"{user} {form.get('scope', ['none'])[0]}")
                    given = {"access_token": server.token(user), "token_type": "Bearer"}
                    self.answer(200, json.dumps(given).encode())
                else:
                    said = {"error": "invalid_client", "error_description": "no such secret"}
                    self.answer(401, json.dumps(said).encode())

            def answer(self, status: int, text: bytes) -> None:
                """Send an answer."""
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        self._server = ThreadingHTTPServer((HOST, 0), Answers)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where tokens are asked for."""
        return f"http://{HOST}:{self._server.server_address[1]}/token"

    def token(self, user: str) -> str:
        """A token for a user."""
        now = time.time()
        claims = {"sub": user, "iat": now, "exp": now + self.life_s, "scope": "kafka"}
        parts = ({"alg": "none"}, claims)
        return "".join(f"{_packed(part)}." for part in parts)

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()


def _packed(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
