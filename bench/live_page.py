"""How old the live page's figures are: a client that asks for documents when the page does."""

from __future__ import annotations

import http.client
import json
import time
from urllib.parse import urlsplit

from bench.processes import MeasurementError

#: As the page has them: how long after a document is due it is asked for, and the shortest pause.
BEHIND_MS, LEAST_MS = 50, 100


def ages_ms(url: str, seconds: float) -> list[float]:
    """The age of what is shown, just before the next document takes its place, ms.

    Raises:
        MeasurementError: the instance serves no page, or tells nothing new.
    """
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    found: list[float] = []
    shown_at, until = None, time.monotonic() + seconds
    while time.monotonic() < until:
        connection.request("GET", "/live.json")
        answer = connection.getresponse()
        document = json.loads(answer.read())
        if answer.status != 200:
            raise MeasurementError(f"{url} answers {answer.status}: {document}")
        now = time.monotonic()
        read_at = now - document["age_ms"] / 1000
        if document["document"] is not None and document["problem"] is None:
            if shown_at is not None and read_at - shown_at > LEAST_MS / 2_000:
                found.append((now - shown_at) * 1000)
            shown_at = read_at
        time.sleep(max(LEAST_MS, document["next_ms"] + BEHIND_MS) / 1000)
    connection.close()
    if not found:
        raise MeasurementError(f"{url} told nothing new in {seconds} s")
    return found
