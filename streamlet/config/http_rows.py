"""The rows of the table of settings that are about queries over HTTP."""

from __future__ import annotations

from functools import partial
from ipaddress import ip_address
from pathlib import Path

import attrs

from streamlet.config.row import row
from streamlet.config.values import folder, host, host_and_port, optional, port, token

#: The group of these rows, the last one of the page.
HTTP_GROUP = "queries"
_row = partial(row, HTTP_GROUP)


@attrs.frozen(hash=False)
class HttpSettings:
    """The settings of the server that answers queries; rows of ``Settings``."""

    http_port: int | None = _row(
        optional(port(), "none"),
        None,
        "Answer [queries](queries.md) over HTTP on this port; 0: any that is free. An instance of "
        "several worker processes has a port for each: this one, and those that follow it.",
        "no server",
    )
    http_host: str = _row(
        host(),
        "127.0.0.1",
        "Interface to answer queries on. One that other machines reach needs `http.token`, or "
        "`http.ssl.ca.location`.",
    )
    http_token: str | None = _row(
        optional(token()),
        None,
        "What requests have to bear, as `Authorization: Bearer TOKEN`. It is the same for all "
        "instances, which ask each other by proofs of it.",
        "none",
    )
    http_ssl_certificate_location: Path | None = _row(  # noqa: RUF009 - row makes an attrs field
        optional(folder()), None, "Certificate of the server, PEM: queries go by TLS.", "none"
    )
    http_ssl_key_location: Path | None = _row(  # noqa: RUF009 - row makes an attrs field
        optional(folder()), None, "Its private key, PEM, without a password.", "none"
    )
    http_ssl_ca_location: Path | None = _row(  # noqa: RUF009 - row makes an attrs field
        optional(folder()),
        None,
        "Certificates of authorities, PEM: only clients with a certificate of theirs are answered "
        "(mTLS). Other instances are asked with the server's own.",
        "none",
    )
    application_server: tuple[str, int] | None = _row(
        optional(host_and_port()),
        None,
        "Where other instances, and `App.metadata_for_key`, find this one's queries; the second "
        "worker process has the port that follows it. Without `http.port` it is the address of a "
        "server of your own.",
        "`http.host`, or this host's name where that is all interfaces, and the port",
    )

    @property
    def is_loopback(self) -> bool:
        """True if only programs of this machine reach the server."""
        try:
            return ip_address(self.http_host).is_loopback
        except ValueError:
            return self.http_host == "localhost"

    def http_problems(self) -> list[str]:
        """Settings of the server that cannot be together, a line each."""
        problems = []
        certificate, key = self.http_ssl_certificate_location, self.http_ssl_key_location
        if (certificate is None) != (key is None):
            problems.append(
                "http.ssl.certificate.location and http.ssl.key.location go together: one of them "
                "is missing"
            )
        if self.http_ssl_ca_location is not None and certificate is None:
            problems.append("http.ssl.ca.location needs http.ssl.certificate.location")
        guarded = self.http_token is not None or self.http_ssl_ca_location is not None
        if self.http_port is not None and not self.is_loopback and not guarded:
            problems.append(
                f"http.host = {self.http_host}: other machines could read all stores; give "
                "http.token, or http.ssl.ca.location for clients with certificates"
            )
        return problems
