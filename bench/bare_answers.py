"""A server of HTTP that does nothing but answer: how long the machine alone makes answers wait.

Its process has the priority of any other, so what the others need of the processors delays it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.processes import MeasurementError, end_with_input

_ROOT = Path(__file__).resolve().parent.parent
#: An answer of the size of those that are measured beside it.
BODY = b'{"value":"AAAAAAAAAAE=","position":{"words":{"0":1000000}},"staleness_ms":0}'


@contextmanager
def answering() -> Iterator[str]:
    """The address of such a server while the block lasts.

    Raises:
        MeasurementError: it does not start.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.bare_answers"],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    assert process.stdout is not None
    try:
        port = process.stdout.readline().strip()
        if not port:
            raise MeasurementError(
                "the bare server of HTTP does not start: is the extra http there?"
            )
        yield f"http://localhost:{port}"
    finally:
        end_with_input(process)
        process.stdout.close()


async def _serve() -> None:
    from aiohttp import web

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(body=BODY, content_type="application/json")

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    site = web.TCPSite(runner, "localhost", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until it ends
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(_serve())
