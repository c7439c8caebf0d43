"""An application behind a proxy, whose outputs and stores are looked at after each fault."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import attrs
from confluent_kafka import TopicPartition as RawPartition

from streamlet.testing import Fault, FaultProxy
from streamlet.testing.faults.wire import ProxiedRequest
from tests.faults.cases import OF_TRANSACTIONS, Case
from tests.integration.chaos.checks import assert_complete_and_in_order, contents, counts_of
from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load, read_all, read_records, reader

PARTITIONS = 2
KEYS = 20
#: Requests wait so long that a delay of ``cases.DELAY_MS`` is beyond it.
SETTINGS = {
    "rebalance_timeout_ms": "12000",
    "handover_timeout_ms": "3000",
    "consumer_socket_timeout_ms": "3000",
    "producer_socket_timeout_ms": "3000",
    "producer_message_timeout_ms": "6000",
}
#: Kinds of requests that a member sends when it begins: to have one sent, all start again.
_AT_START = frozenset(
    {
        "FindCoordinator",
        OF_TRANSACTIONS,
        "JoinGroup",
        "SyncGroup",
        "OffsetFetch",
        "InitProducerId",
        "ListOffsets",
        "Metadata",
    }
)
#: Kinds that are sent once, when a member begins or ends.
SENT_ONCE = _AT_START | {"LeaveGroup"}
_FAILED = re.compile(r"^a-\d+ failed: (.*)$", re.MULTILINE)
#: What differs from run to run of a sentence: members' ids, numbers, and topics.
_IDS, _NUMBERS = re.compile(r"-[0-9a-f]{8}-[0-9a-f-]{27}"), re.compile(r"\d+")
_TOPICS = re.compile(r"\bapp-[a-z-]+")


class WrongError(Exception):
    """Outputs or stores are not those of the input."""


@attrs.frozen
class Outcome:
    """What became of an application by a fault.

    Attributes:
        leads_to: in a word or two, as the page of faults has it.
        says: the sentence that ended a worker or the application; empty if none did.
        took_s: until all was exact again, s.
    """

    leads_to: str
    says: str = ""
    took_s: float = 0.0

    @property
    def told(self) -> str:
        """What it led to, with the sentence, as the page of faults has it."""
        return f"{self.leads_to}: {self.says.replace('|', '/')}" if self.says else self.leads_to


class Outputs:
    """What readers of committed records have seen of the application's outputs so far."""

    def __init__(self, cluster: Cluster, exactly_once: bool) -> None:
        self._exactly_once = exactly_once
        self._seen: dict[str, dict[str, list[int]]] = {"counts": {}, "groups": {}}
        self._readers = {name: reader(cluster.servers) for name in self._seen}
        for name, consumer in self._readers.items():
            topic = cluster.topic(name)
            consumer.assign([RawPartition(topic, p, 0) for p in range(PARTITIONS)])

    def missing(self, true: Counter[str]) -> dict[str, tuple[int, int]]:
        """The keys that lack an output, with their last ones and those that they will have.

        Raises:
            WrongError: an output is none of the input's, or came twice under exactly_once.
        """
        for name, consumer in self._readers.items():
            for record in read_records(consumer, 0.05):
                self._seen[name].setdefault(record.key.decode(), []).append(record.number)
        lacking: dict[str, tuple[int, int]] = {}
        for name, wanted in (("counts", true), ("groups", groups_of(true))):
            for key, count in wanted.items():
                found = self._seen[name].get(key, [])
                self._check(f"{name} of {key}", found, count)
                if not found or found[-1] != count:
                    lacking[f"{name} {key}"] = (found[-1] if found else 0, count)
        return lacking

    def _check(self, what: str, found: list[int], count: int) -> None:
        if self._exactly_once and found != list(range(1, len(found) + 1)):
            raise WrongError(f"{what}: {found[-9:]} at the end of {len(found)} outputs")
        if found and max(found) > count:
            raise WrongError(f"{what}: {max(found)} counted of {count}")
        if found and found[-1] == count and {*found} != {*range(1, count + 1)}:
            raise WrongError(f"{what}: outputs are missing: {found[-9:]}")

    def close(self) -> None:
        """Free the clients."""
        for consumer in self._readers.values():
            consumer.close()


def groups_of(true: Counter[str]) -> Counter[str]:
    """The counts behind the repartition: by a key's last digit."""
    found: Counter[str] = Counter()
    for key, count in true.items():
        found[key[-1]] += count
    return found


class Subject:
    """The application ``counting`` with two workers behind a proxy; a context manager.

    Args:
        servers: the brokers.
        folder: for its state and logs.
        guarantee: its ``processing.guarantee``.
    """

    def __init__(self, servers: str, folder: Path, guarantee: str) -> None:
        self.guarantee = guarantee
        self.proxy = FaultProxy(servers)
        self._servers, self._folder = servers, folder
        self._sent: Counter[str] = Counter()
        self._lock = threading.Lock()
        #: The whole instance has ended since the fault was injected.
        self._gave_up = False

    def __enter__(self) -> Subject:
        self.proxy.__enter__()
        self.proxy.delay(None, 0, times=None, where=self._note)
        self._cluster = Cluster(
            self._servers,
            self._folder,
            partitions=PARTITIONS,
            processing_guarantee=self.guarantee,
            **SETTINGS,
        )
        through = ("--bootstrap-servers", self.proxy.bootstrap_servers)
        self._instance: Instance = self._cluster.instance("a", 2, more=through).start()
        self._load = Load(self._servers, self._cluster.topic("in"), keys=KEYS)
        self._outputs = Outputs(self._cluster, self.guarantee == "exactly_once")
        self._go_on()
        self._await_exact()
        return self

    def __exit__(self, *_: object) -> None:
        self._outputs.close()
        self._cluster.end()
        self._cluster.delete_topics()
        self.proxy.__exit__(None, None, None)

    def suffer(self, case: Case, nth: int = 1) -> Outcome:
        """Let a fault happen while records come; wait until all is exact; what it led to.

        Raises:
            WrongError: something was lost, or came twice.
        """
        begin = time.monotonic()
        self._instance.await_workers()
        if case.api in _AT_START:
            self._instance.stop()
        known = {log: log.stat().st_size for log in self._logs()}
        self._gave_up = False
        with self._lock:
            self._sent.clear()
        fault = case.inject(self.proxy, nth)
        try:
            self._have_it_happen(case, fault)
            if case.effect == "delay":
                fault.wait(ended=True)
            self._await_exact()
        finally:
            fault.lift()
        outcome = self._outcome(case, known, time.monotonic() - begin)
        if outcome.says:  # an instance whose workers fail too often ends
            self._instance.stop()
            self._instance.start()
        return outcome

    def finish(self) -> None:
        """Stop it; its stores and outputs are those of the input.

        Raises:
            AssertionError: they are not.
        """
        true = self._load.finish()
        self._await_exact()
        self._cluster.await_settled()
        code = self._instance.stop()
        assert code == 0, self._cluster.logs()
        copies = contents(self._cluster, [self._instance])
        assert counts_of(copies, "counts") == true
        assert counts_of(copies, "groups") == groups_of(true)
        if self.guarantee == "exactly_once":
            for topic, meant in (("counts", true), ("groups", groups_of(true))):
                topic = self._cluster.topic(topic)
                records = read_all(self._servers, topic, range(PARTITIONS))
                assert_complete_and_in_order(records, meant)

    def _note(self, request: ProxiedRequest) -> bool:
        with self._lock:
            self._sent[request.api] += 1
        return False

    def _go_on(self) -> None:
        self._load.send(KEYS * 2)

    def _have_it_happen(self, case: Case, fault: Fault) -> None:
        if case.api == "LeaveGroup":
            self._instance.stop()
        if case.api in SENT_ONCE:
            self._instance.start()

        def happened() -> int:
            self._go_on()
            return fault.happened

        wait_for(happened, lambda: f"{case}: {self._cluster.logs()}", pause_s=0.2)
        self._go_on()

    def _await_exact(self) -> None:
        lacking: dict[str, tuple[int, int]] = {}

        def exact() -> bool:
            nonlocal lacking
            if self._instance.process is None or self._instance.process.poll() is not None:
                self._gave_up = True
                self._instance.start()
            lacking = self._outputs.missing(self._load.produced)
            return not lacking

        self._load.flush()
        wait_for(exact, lambda: f"exact: {lacking}\n{self._cluster.logs()}")

    def _logs(self) -> list[Path]:
        return [*self._instance.folder.glob("log-*.txt")]

    def _outcome(self, case: Case, known: Mapping[Path, int], took_s: float) -> Outcome:
        """What it led to, by the wire and by what the logs have behind those sizes."""
        failed = [
            one
            for log in self._logs()
            for one in _FAILED.findall(log.read_bytes()[known.get(log, 0) :].decode())
        ]
        said = failed[-1].replace(self._cluster.name, "app") if failed else ""
        for server in {*self._servers.split(","), *self.proxy.bootstrap_servers.split(",")}:
            said = said.replace(server, "HOST:PORT")
        said = _NUMBERS.sub("N", _TOPICS.sub("TOPIC", _IDS.sub("", said)))
        return Outcome(self._leads_to(case, said), said, round(took_s, 1))

    def _leads_to(self, case: Case, says: str) -> str:
        if says or self._gave_up:
            return "the application ends" if self._gave_up else "the worker starts again"
        with self._lock:
            if case.api not in SENT_ONCE:
                if self._sent["InitProducerId"]:
                    return "new epoch"
                if self._sent["JoinGroup"]:
                    return "joins again"
        return "asked again"
