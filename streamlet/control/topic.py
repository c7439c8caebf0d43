"""The control topic on its broker: made, read to the end, followed, written. Over the ports.

One compacted partition per application. Its members read it for as long as they run, commands read
it once.
"""

from __future__ import annotations

from collections.abc import Iterable

from streamlet.clock import Clock
from streamlet.closing import Closing
from streamlet.control.records import ControlRecordError, Place, encode_key, encode_value, place_of
from streamlet.control.values import Entry
from streamlet.control.view import ControlView
from streamlet.errors import StreamletError, TopologyError
from streamlet.kafka.ports import (
    Admin,
    NewTopic,
    OutgoingRecords,
    PartitionBatch,
    RecordSink,
    RecordSource,
)
from streamlet.kafka.reading import read_until
from streamlet.logs import get_logger
from streamlet.types import TopicPartition

log = get_logger(__name__)

SUFFIX = "-streamlet-control"

#: Small segments, cleaned early: a member that starts reads the whole topic.
CONFIG = (
    ("cleanup.policy", "compact"),
    ("segment.bytes", "1048576"),
    ("min.cleanable.dirty.ratio", "0.1"),
    ("delete.retention.ms", "3600000"),
)

#: Records of one poll.
POLL_RECORDS = 1_000

#: How long a view is brought up to date before it counts as of now.
_LATEST_MS = 1_000

#: Of the reason why a record cannot be read, in the log.
_REASON_CHARS = 200


def control_topic_name(application: str) -> str:
    """The control topic of an application."""
    return f"{application}{SUFFIX}"


def is_control_topic(name: str) -> bool:
    """True if a topic is some application's control topic."""
    return name.endswith(SUFFIX)


def applications_of(topics: Iterable[str]) -> set[str]:
    """The ids of applications that have a control topic among these topics."""
    return {name.removesuffix(SUFFIX) for name in topics if is_control_topic(name)}


def prepare_control(admin: Admin, application: str, *, replication: int = -1) -> str:
    """Make the control topic if it is missing, and look whether it is as it must be; its name.

    Raises:
        TopologyError: there is a topic of this name that cannot serve.
        BrokerError: the broker does not answer, or refuses.
    """
    name = control_topic_name(application)
    found = admin.topics().get(name)
    if found is None:
        admin.create_topics([NewTopic(name, 1, replication, CONFIG)])
        return name
    problems = []
    if found.partitions != 1:
        problems.append(f"{found.partitions} partitions, not 1")
    policy = admin.topic_config(name).get("cleanup.policy", "")
    if "compact" not in policy.split(","):
        problems.append(f"cleanup.policy={policy}, not compact")
    if problems:
        raise TopologyError(
            f"topic {name} is there with {' and '.join(problems)}: it cannot be the control topic "
            f"of {application}. Delete it, it is created again; marks to leave go with it"
        )
    return name


class ControlTopic(Closing):
    """Reads and writes one control topic; for one thread.

    Args:
        application: its name.
        source: a consumer of its own.
        sink: a producer of its own.
        admin: knows where the topic begins and ends.
        clock: for time limits.
        replication: of the topic, where it is made here; -1 is the broker's default.
    """

    def __init__(
        self,
        application: str,
        source: RecordSource,
        sink: RecordSink,
        admin: Admin,
        clock: Clock,
        replication: int = -1,
    ) -> None:
        self._application = application
        self._replication = replication
        self.name = control_topic_name(application)
        #: What holds after all records read so far.
        self.view = ControlView()
        #: Records that could not be read, and were passed over.
        self.unreadable = 0
        self._looked_at = 0
        #: Whether the topic was there and read to its end, and followed without an error since.
        self._was_read = False
        self._partition = TopicPartition(self.name, 0)
        self._source = source
        self._sink = sink
        self._admin = admin
        self._clock = clock

    def prepare(self) -> None:
        """Make the topic if it is missing; raises as ``prepare_control``."""
        prepare_control(self._admin, self._application, replication=self._replication)

    def read(self, timeout_ms: int = 15_000) -> ControlView:
        """Read the topic to its present end; reads nothing if the topic does not exist.

        After an error the view is as before.

        Raises:
            TimedOutError: nothing came for so long, and the end was not reached.
            BrokerError: the broker does not answer.
        """
        before, self._was_read = self.view, False
        try:
            self._read(timeout_ms)
        except StreamletError:
            self.view = before
            raise
        return self.view

    def latest(self) -> ControlView:
        """The view as of now: the topic is read the first time and after an error, then followed.

        Raises as ``read`` and ``follow``.
        """
        if not self._was_read:
            return self.read()
        until_ms = self._clock.now_ms() + _LATEST_MS
        while self.follow(0) and self._clock.now_ms() < until_ms:
            pass  # others may write as fast as this reads
        return self.view

    def _read(self, timeout_ms: int) -> None:
        self.view = ControlView()
        if self.name not in self._admin.topics():
            return
        ends = self._admin.end_offsets([self._partition])
        begins = self._admin.start_offsets([self._partition])
        for batch in read_until(
            *(self._source, ends),
            begins=begins,
            clock=self._clock,
            silent_ms=timeout_ms,
            reads_on=True,
        ):
            self._apply(batch)
        self._was_read = True

    def follow(self, timeout_ms: int) -> bool:
        """Read new records, waiting for the first one; True if the view changed.

        ``read`` comes first, and again after an error.

        Raises:
            BrokerError: a fatal error of the client, or the topic was cut off or created again.
        """
        before = self.view
        try:
            batches = self._source.poll(1, timeout_ms)
            if batches:
                batches += self._source.poll(POLL_RECORDS, 0)
        except StreamletError:
            self._was_read = False
            raise
        for batch in batches:
            self._apply(batch)
        return self.view is not before

    def _apply(self, batch: PartitionBatch) -> None:
        """Take the records of a batch; name those that cannot be read, each once."""
        strange: list[tuple[int, ControlRecordError]] = []
        dropped = self.view.dropped
        self.view = self.view.apply_all(
            zip(batch.keys, batch.values, strict=True),
            lambda index, error: strange.append((batch.offsets[index], error)),
        )
        fresh = [(offset, error) for offset, error in strange if offset >= self._looked_at]
        if fresh:
            self.unreadable += len(fresh)
            (offset, error), more = fresh[0], len(fresh) - 1
            log.warning(
                "%s: the record at offset %d%s cannot be read and is passed over: %s",
                self.name,
                offset,
                f" (and {more} more up to {fresh[-1][0]})" if more else "",
                repr(str(error)[:_REASON_CHARS]),  # no control character reaches a terminal
            )
        if self.view.dropped > dropped:
            log.warning(
                "%s has very many entries: %d are left out, of marks and reports the oldest ones",
                *(self.name, self.view.dropped - dropped),
            )
        if batch.offsets:
            self._looked_at = max(self._looked_at, batch.offsets[-1] + 1)

    def ids_of(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids of the topics that exist.

        Raises:
            BrokerError: the broker does not answer.
        """
        return self._admin.topic_ids(sorted(topics))

    def write(self, *entries: Entry) -> None:
        """Queue entries; ``flush`` waits until they are delivered."""
        keys = [encode_key(place_of(entry)) for entry in entries]
        values = [encode_value(entry) for entry in entries]
        self._sink.send(OutgoingRecords(self.name, keys, values, partitions=0))

    def remove(self, *places: Place) -> None:
        """Queue tombstones that remove the entries at these places."""
        keys = [encode_key(place) for place in places]
        self._sink.send(OutgoingRecords(self.name, keys, [None] * len(keys), partitions=0))

    def flush(self, timeout_ms: int = 15_000) -> None:
        """Wait until everything written is delivered.

        Raises:
            DeliveryError: it was not.
        """
        self._sink.flush(timeout_ms)

    def forget_unwritten(self) -> None:
        """Let go of what was queued and not delivered; the topic can be written to again."""
        self._sink.reset()

    def close(self) -> None:
        """Free the clients; records that were not flushed are lost."""
        self._source.close()
        self._sink.close()
        self._admin.close()
