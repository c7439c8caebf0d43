"""A plain consumer: a member of a Kafka group that shares topics, with assignors in Python.

    import streamlet as sl

    with sl.Consumer("orders", "billing", bootstrap_servers="localhost:9092") as consumer:
        for record in consumer:
            print(record.key, record.value)

Membership lives in a thread of its own: heartbeats and joins never wait for what is done with the
records. Everything else, the callbacks too, happens in the thread that polls, and only there: a
consumer belongs to one thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import calls_told_by_form, check_is, never_copied
from streamlet.clock import Clock, SystemClock
from streamlet.config import Settings
from streamlet.coordinator.group_client import group_client
from streamlet.coordinator.member_config import JOIN_MARGIN_MS, MembershipConfig
from streamlet.coordinator.ports import GroupTransport
from streamlet.coordinator.session import GroupSession
from streamlet.errors import ConfigError, StreamletError, WrongValueError
from streamlet.kafka.client import KafkaAdmin, KafkaSource
from streamlet.kafka.ports import Admin, RecordSource
from streamlet.logs import get_logger
from streamlet.partitions.events import PartitionEvents
from streamlet.partitions.follower import (
    Callback,
    Callbacks,
    PartitionsFollower,
    log_failure,
)
from streamlet.partitions.protocol import VERSIONS, PartitionsProtocol
from streamlet.partitions.reading import ConsumerRecord, Reading
from streamlet.partitions.sticky import ConsumerMember, PartitionAssignor, sticky
from streamlet.partitions.topics import ConsumerTopics
from streamlet.types import Seconds, TopicPartition, ms_of

__all__ = ["Consumer", "ConsumerMember", "PartitionAssignor", "ConsumerRecord", "sticky"]

log = get_logger(__name__)

#: The client fills a batch or uses its time up, so this is how late a record may be.
_SLICE_MS = 10
#: Records that iterating reads ahead.
_READ_AHEAD = 500
#: Less than half of the shortest session that brokers allow by default: the leader asks for
#: partition counts on the thread that sends its heartbeats.
_ADMIN_TIMEOUT_MS = 2_500


@attrs.frozen
class Parts:
    """The parts a consumer works through."""

    source: RecordSource
    admin: Admin
    transport: GroupTransport
    clock: Clock


@never_copied("make one in the process that reads")
@explains_misuse
@calls_told_by_form
class Consumer:
    """A member of a group of consumers.

    With ``auto_commit`` a record counts as processed when the next ones are asked for, and
    positions are committed every ``commit.interval.ms``, before partitions are given up and at the
    end. A record whose processing raises inside a ``with`` block is not committed. So every record
    is processed at least once.

    Args:
        topics: what to read, one name or several.
        group_id: the group's name.
        bootstrap_servers: ``host:port,…``; otherwise the setting counts.
        assignor: names an owner for each partition when this member leads,
            ``assignor(members, partitions) -> {member: partitions}``, see ``sticky``. It runs on
            the thread that sends heartbeats. A ``StreamletError`` from it means "not now": it is
            asked again. Anything else, or an answer that cannot be, ends the membership.
        config: settings as for ``App``; ``rebalance.protocol`` is ``eager`` or ``cooperative``.
            ``instance.tags`` reach the assignor.
        auto_commit: see above; otherwise positions are committed by ``commit`` only.
        on_assigned: called with partitions that begin; ``seek`` may be called in it.
        on_revoked: called with partitions that end, before others get them; ``commit`` still works.
        on_lost: called with partitions that others may have already; nothing can be committed.
        parts: what to speak through, for tests.

    Raises:
        ConfigError: no topic, or settings that cannot be.
        WrongTypeError: an argument is of another type.
    """

    def __init__(
        self,
        topics: str | Iterable[str],
        group_id: str,
        *,
        bootstrap_servers: str | None = None,
        assignor: PartitionAssignor = sticky,
        config: Mapping[str, object] | None = None,
        auto_commit: bool = True,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
        parts: Parts | None = None,
    ) -> None:
        check_is("Consumer(topics=)", topics, (str, Iterable), "names of topics")
        given = [topics] if isinstance(topics, str) else [*topics]
        for one in given:
            check_is("Consumer(topics=)", one, (str,), "names of topics")
        self._topics = tuple(sorted(set(given)))
        if not all((*self._topics, group_id)) or not self._topics:
            raise ConfigError(["a consumer needs at least one topic and a group"])
        values = dict(config or {})
        if bootstrap_servers is not None:
            values["bootstrap.servers"] = bootstrap_servers
        self.group_id = group_id
        self.settings = Settings.load(values, environ=os.environ)
        parts = parts or _connect(self.settings, group_id)
        self._source, self._admin, self._clock = parts.source, parts.admin, parts.clock
        reset = self.settings.auto_offset_reset
        self._known = ConsumerTopics(self._topics, self._admin, reset, group_id, self._clock)
        self._mailbox = PartitionEvents()
        self._protocol = PartitionsProtocol(
            self._topics,
            VERSIONS[self.settings.rebalance_protocol],
            partitions=self._known.counts,
            assign=assignor,
            tags=self.settings.instance_tags,
            rejoin=lambda reason: self._session.rejoin(reason),
            overtaken=self._mailbox.overtaken,
        )
        self._mailbox.protocol = self._protocol
        membership = _membership(group_id, self.settings, parts.clock.wall_ms())
        self._session = GroupSession(
            membership, self._protocol, parts.transport, parts.clock, self._mailbox.offer
        )
        self._reading = Reading(parts.source)
        self._follower = PartitionsFollower(
            self._session,
            self._mailbox,
            self._protocol,
            self._reading,
            self._known,
            self.settings.commit_interval_ms if auto_commit else None,
            Callbacks(on_assigned or _nothing, on_revoked or _nothing, on_lost or _nothing),
            parts.clock,
        )
        self._started = False
        self._closed = self._known.closed
        self._watch = threading.Thread(
            target=self._known.watch,
            args=(self.settings.metadata_max_age_ms, self._planned_for, self._session.rejoin),
            name="streamlet-topics",
            daemon=True,
        )

    # -- reading -------------------------------------------------------------------------------

    def poll(self, max_records: int = 500, timeout: Seconds = 1.0) -> list[ConsumerRecord]:
        """Hand out records as soon as there are some, none if there are none in ``timeout``.

        Callbacks are called in here. Without a call for ``max.poll.interval.ms`` the member leaves
        the group and loses its partitions, until the next call.

        Args:
            max_records: no more than so many.
            timeout: how long to wait for the first, seconds or a ``timedelta``.

        Raises:
            MissingTopicError: on the first call, a topic does not exist.
            BrokerError: the broker does not answer or refuses.
            GroupError: the membership has ended for good; every later call raises the same.
        """
        deadline = self._clock.now_ms() + ms_of(timeout)
        self._begin()
        while True:
            self._follower.go_round()
            wait_ms = min(deadline - self._clock.now_ms(), _SLICE_MS)
            records = self._reading.take(max_records, wait_ms)
            if records or self._clock.now_ms() >= deadline:
                self._reading.hand_out(records)
                return records

    def __iter__(self) -> Self:
        """Records one by one, for ever; the end is ``close``."""
        return self

    def __next__(self) -> ConsumerRecord:
        """The next record, waited for as long as it takes."""
        if self._closed.is_set():
            raise StopIteration
        self._begin()
        self._follower.go_round()
        while (record := self._reading.next_ahead()) is None:
            self._reading.read_ahead(_READ_AHEAD, _SLICE_MS)
            self._follower.go_round()
        self._reading.hand_out([record])
        return record

    def _begin(self) -> None:
        """Join on the first call."""
        if self._closed.is_set():
            raise StreamletError("the consumer is closed")
        if self._follower.error is not None:
            raise self._follower.error
        if self._started:
            return
        self._known.begin()
        self._started = True
        self._session.start()
        self._watch.start()

    # -- positions -----------------------------------------------------------------------------

    @property
    def assignment(self) -> list[TopicPartition]:
        """Partitions being read, paused ones too."""
        return sorted(self._reading.positions)

    @property
    def paused(self) -> list[TopicPartition]:
        """Partitions that were paused and not resumed."""
        return sorted(self._reading.paused)

    def position(self, partition: tuple[str, int]) -> int:
        """Offset of the next record to hand out; raises as ``seek``."""
        return self._reading.positions[self._reading.mine(partition)]

    def seek(self, partition: tuple[str, int], offset: int) -> None:
        """Go on at an offset.

        Raises:
            PartitionsLostError: we do not read this partition.
            ValueError: a negative offset.
        """
        if offset < 0:
            raise WrongValueError(f"an offset is 0 or more, not {offset}")
        self._reading.seek(self._reading.mine(partition), offset)

    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Hand out nothing of these until resumed, or given up; raises as ``seek``."""
        self._reading.pause([self._reading.mine(tp) for tp in partitions])

    def resume(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Hand these out again; raises as ``seek``."""
        self._reading.resume([self._reading.mine(tp) for tp in partitions])

    def commit(
        self,
        offsets: Mapping[tuple[str, int], int] | None = None,
        *,
        sync: bool = True,
        timeout: Seconds = 10.0,
    ) -> None:
        """Commit positions, fenced by member id and generation.

        Args:
            offsets: of each partition, the offset of the next record to read; None: behind all
                that was handed out.
            sync: wait until it is done; otherwise a failure is only logged.
            timeout: how long to try, seconds or a ``timedelta``.

        Raises:
            PartitionsLostError: the group gave a partition away; nothing was committed.
            TimedOutError: not accepted in time; it may have happened all the same.
            BrokerError: the broker refuses.
        """
        if offsets is None:
            wanted = dict(self._reading.positions)
        else:
            wanted = {self._reading.mine(tp): offset for tp, offset in offsets.items()}
        if not wanted:
            return
        if sync:
            self._follower.commit(wanted, ms_of(timeout))
        else:
            self._follower.send_commit(wanted).add_done_callback(log_failure)

    # -- the group -----------------------------------------------------------------------------

    @property
    def member_id(self) -> str:
        """The id the coordinator gave us, empty for none."""
        return self._session.view.member_id

    @property
    def generation(self) -> int:
        """Generation of the last assignment, -1 for none."""
        return self._session.view.generation

    def rebalance(self, reason: str) -> None:
        """Have the group rebalance, because the assignor would decide otherwise by now."""
        self._session.rejoin(reason)

    def metrics(self) -> dict[str, int]:
        """Counters by name.

        ``num.incompatible.rebalance``: rebalances with members of both rebalance protocols.
        ``num.rebalance``: assignments taken up. ``assigned.partitions``: how many we have.
        """
        return {
            "num.incompatible.rebalance": self._protocol.incompatible_rebalances,
            "num.rebalance": self._follower.rebalances,
            "assigned.partitions": len(self._reading.owned),
        }

    def _planned_for(self) -> Mapping[str, int]:
        return self._protocol.planned_for if self._follower.leads else {}

    # -- the end -------------------------------------------------------------------------------

    def close(self, timeout: Seconds = 5.0) -> None:
        """Give everything up, leave the group and free the clients; a second call does nothing.

        With ``auto_commit``, positions behind all that was handed out are committed. A member with
        a static id does not leave: its successor goes on if it comes within the session timeout.
        """
        if self._closed.is_set():
            return
        self._closed.set()
        try:
            if self._started:
                self._follower.leave(ms_of(timeout))
        finally:
            self._session.close()
            self._source.close()
            self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; after an error the records handed out last do not count as processed."""
        if error is not None:
            self._reading.take_back()
        self.close()

    def __repr__(self) -> str:
        return f"Consumer({', '.join(self._topics)!r}, {self.group_id!r})"


def _connect(settings: Settings, group_id: str) -> Parts:
    """The clients, none of which has said anything to a broker yet."""
    servers, clock = settings.bootstrap_servers, SystemClock()
    reset = "error" if settings.auto_offset_reset == "none" else settings.auto_offset_reset
    source = KafkaSource(
        servers,
        {**settings.client_config("consumer"), "auto.offset.reset": reset},
        headers=True,
        isolation="read_committed" if settings.read_committed else "read_uncommitted",
        name=group_id,
    )
    admin = KafkaAdmin(
        servers,
        settings.client_config("admin"),
        timeout_ms=_ADMIN_TIMEOUT_MS,
        clock=clock,
        read_committed=settings.read_committed,
    )
    transport = group_client(settings, group_id, clock)
    return Parts(source, admin, transport, clock)


def _membership(group_id: str, settings: Settings, wall_ms: int) -> MembershipConfig:
    config = MembershipConfig.from_settings(group_id, settings, first_nonce=wall_ms)
    config = attrs.evolve(config, instance_id=settings.group_instance_id)
    if settings.rebalance_protocol == "cooperative":
        return config
    # The reader has as long to give everything up as to come round at all, as in Kafka; then it
    # counts as stalled, before the join could go out without its consent.
    most_ms = config.max_poll_interval_ms
    least_ms = most_ms + config.commit_timeout_ms + JOIN_MARGIN_MS
    return attrs.evolve(
        config,
        announce_joins=True,
        hold_timeout_ms=most_ms,
        rebalance_timeout_ms=max(config.rebalance_timeout_ms, least_ms),
    )


def _nothing(partitions: list[TopicPartition]) -> None:
    """Take no notice."""
