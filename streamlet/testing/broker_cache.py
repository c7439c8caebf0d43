"""``python -m streamlet.testing.broker_cache``: have brokers on this machine start quickly.

Runs a broker for some seconds, creates topics, writes, reads and commits, and keeps what Java has
loaded and learned for all brokers that are started later. A second run finds it done.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path

from streamlet.app import App
from streamlet.broker.aot_cache import cache_file
from streamlet.broker.jars import locked
from streamlet.broker.java import java_executable
from streamlet.broker.node import OPTIONS_VARIABLE
from streamlet.broker.server import KafkaBroker
from streamlet.broker.storage import JARS
from streamlet.config import Settings
from streamlet.errors import BrokerError
from streamlet.kafka.client import KafkaAdmin, KafkaSink
from streamlet.kafka.ports import NewTopic, OutgoingRecords

_FLUSHES = 20
_KEYS: list[bytes | None] = [b"%d" % number for number in range(200)]
_PATIENCE_MS = 60_000


def main() -> int:
    """Make the cache; the exit status."""
    try:
        made = make()
    except BrokerError as error:
        print(error, file=sys.stderr)
        return 1
    print("brokers start without a cache on this Java" if made is None else f"made {made}")
    return 0


def make() -> Path | None:
    """The cache, made if it is not there yet; None: this Java has none.

    Raises:
        BrokerError: the broker does not start, or Java wrote no cache.
    """
    file = cache_file(java_executable(), JARS)
    if file is None:
        return None
    with locked(file.with_suffix(".lock")):
        if not file.is_file():
            _record(file)
    return file


def _record(file: Path) -> None:
    aside = file.with_suffix(".part")
    aside.unlink(missing_ok=True)
    before = os.environ.get(OPTIONS_VARIABLE)
    os.environ[OPTIONS_VARIABLE] = shlex.join(
        [*shlex.split(before or ""), f"-XX:AOTCacheOutput={aside}"]
    )
    try:
        with KafkaBroker() as broker:
            _use(broker.bootstrap_servers)
            broker.stop()  # Java writes the cache now
            complaint = broker.brokers[0].complaint()
    finally:
        if before is None:
            del os.environ[OPTIONS_VARIABLE]
        else:
            os.environ[OPTIONS_VARIABLE] = before
    if not aside.is_file():
        raise BrokerError(f"Java wrote no cache; {complaint}")
    aside.rename(file)


def _use(bootstrap: str) -> None:
    """Run an application, as most tests do."""
    admin, sink = KafkaAdmin(bootstrap), KafkaSink(bootstrap)
    try:
        admin.create_topics([NewTopic(name, 4) for name in ("words", "counts")])
        for _ in range(_FLUSHES):
            sink.send(OutgoingRecords("words", _KEYS, _KEYS))
            sink.flush(_PATIENCE_MS)
        with tempfile.TemporaryDirectory() as state:
            settings = Settings.load({"bootstrap.servers": bootstrap, "state.dir": state})
            _counting().run(
                count=_FLUSHES * len(_KEYS), timeout=_PATIENCE_MS / 1_000, settings=settings
            )
    finally:
        sink.close()
        admin.close()


def _counting() -> App:
    app = App("broker-cache")
    words = app.stream("words", key=str, value=str).group_by(lambda _, word: word, key=str)
    words.count(store="counts").to_stream().to("counts")
    return app


if __name__ == "__main__":
    sys.exit(main())
