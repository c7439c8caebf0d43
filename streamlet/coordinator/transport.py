"""Group requests over the network; here alone kafka-python opens connections.

Two connections lead to a coordinator: the broker answers one request at a time on each, so a
JoinGroup that is parked until others have joined would hold up every heartbeat behind it. All of
them live on one I/O thread with kafka-python's own loop; nothing that is slow may run there, so
callbacks of the futures returned here must only pass the result on.

Versions are negotiated. A field that an older broker's version lacks is dropped without a word by
the encoder, so each request names the lowest version that has what we rely on (Kafka 2.5).

``kafka.net`` and ``kafka.protocol`` are not kafka-python's documented face: its version is pinned
and the contract test notices when they move.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from types import SimpleNamespace
from typing import Any, TypeVar

from streamlet.clock import Clock, SystemClock
from streamlet.closing import Closing
from streamlet.coordinator.codes import name_of
from streamlet.coordinator.events import Connection, FailureKind
from streamlet.coordinator.messages import Answer, GroupDescription, GroupListing, Request
from streamlet.coordinator.ports import CoordinatorRefused, TransportError
from streamlet.coordinator.security import client_settings
from streamlet.coordinator.sockets import DataFirstSocket, OpenSockets
from streamlet.coordinator.tokens import TokenProvider
from streamlet.coordinator.transport_codec import (
    WireRequest,
    codes_of,
    decode,
    decode_group,
    decode_log_sizes,
    encode,
    encode_leave,
    encode_log_sizes,
)
from streamlet.coordinator.transport_errors import (
    BrokerConnections,
    failure_kind,
    failure_text,
    hush,
    refuse_old,
)
from streamlet.kafka.listener import looking_aside
from streamlet.logs import get_logger
from streamlet.types import TopicPartition

with warnings.catch_warnings():
    # kafka-python reads its schemas by a call that Python calls deprecated; not our users' concern.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.errors as kafka_errors
    from kafka.net import KafkaNetSocket, NetworkSelector
    from kafka.protocol import admin, consumer, metadata

log = get_logger(__name__)

T = TypeVar("T")

#: The leader's JoinGroup answer has all members' metadata; kafka-python's own bound is 1 MB.
_RECEIVE_MAX_BYTES = 100_000_000
#: One unresponsive bootstrap server must not use up the time for all.
_ATTEMPT_MS = 3_000
_RETRY_PAUSE_MS = 20
_FIND_PAUSE_MS = 100
_NO_ANSWER = "no answer"
#: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE: a fresh cluster makes its topic first.
_NOT_YET = frozenset({14, 15})
_MOVED = frozenset({15, 16})

_REQUESTS = {
    "FindCoordinator": metadata.FindCoordinatorRequest,
    "JoinGroup": consumer.JoinGroupRequest,
    "SyncGroup": consumer.SyncGroupRequest,
    "Heartbeat": consumer.HeartbeatRequest,
    "LeaveGroup": consumer.LeaveGroupRequest,
    "OffsetCommit": consumer.OffsetCommitRequest,
    "OffsetFetch": consumer.OffsetFetchRequest,
    "DescribeGroups": admin.DescribeGroupsRequest,
    "DeleteGroups": admin.DeleteGroupsRequest,
    "ListGroups": admin.ListGroupsRequest,
    "DescribeLogDirs": admin.DescribeLogDirsRequest,
}


class _Network(NetworkSelector):  # type: ignore[misc]
    """kafka-python's event loop, with the sockets that were made for it.

    It leaves a socket open whose last bytes were not yet sent when it was closed.
    """

    def __init__(self, **configs: Any) -> None:
        super().__init__(**configs)
        self.sockets = OpenSockets()

    def close(self) -> None:
        """Close the loop, then every socket that is still open."""
        with self.sockets.closed_behind():  # it drops handshakes that are under way
            super().close()


class _Dialer(KafkaNetSocket):  # type: ignore[misc]
    """Makes our sockets, and closes that of a failed attempt, which kafka-python forgets.

    Its proxies are chosen by the scheme of ``proxy_url``; so is this.
    """

    SCHEMES = ("streamlet",)

    def socket(self, family: int, sock_type: int, proto: int) -> DataFirstSocket:
        """Make a socket."""
        return DataFirstSocket(family, sock_type, proto)

    async def sock_connect(
        self, net: Any, sock: Any, sockaddr: Any, timeout_at: float | None = None
    ) -> Any:
        """Connect, or close and raise."""
        net.sockets.add(sock)
        try:
            return await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise


class Transport(Closing):
    """Sends group requests to the coordinator; thread-safe.

    Args:
        bootstrap_servers: ``host:port``, several with commas.
        client_config: settings; those about security are used, see ``security``.
        client_id: begins the ids that the broker gives to new members.
        clock: for tests.

    Raises:
        ConfigError: a security setting that cannot be.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        client_config: Mapping[str, object] | None = None,
        *,
        client_id: str = "streamlet",
        clock: Clock | None = None,
    ) -> None:
        hush()
        given = client_settings(client_config or {}, bootstrap_servers, clock)
        settings = {"client_id": client_id, **given}
        self._tokens: TokenProvider | None = given.get("sasl_oauth_token_provider")
        self._look = looking_aside(bootstrap_servers, client_config or {})
        self._servers = bootstrap_servers
        self._clock = clock or SystemClock()
        self._net = _Network(client_id=settings["client_id"], slow_task_threshold_secs=0)
        self._net.sockets.note_tls(settings.get("ssl_context"))
        self._manager = BrokerConnections(
            self._net,
            bootstrap_servers=bootstrap_servers.split(","),
            receive_message_max_bytes=_RECEIVE_MAX_BYTES,
            reconnect_backoff_max_ms=1_000,
            socket_connection_setup_timeout_ms=_ATTEMPT_MS,
            socket_connection_setup_timeout_max_ms=_ATTEMPT_MS,
            max_in_flight_requests_per_connection=100,
            proxy_url=f"{_Dialer.SCHEMES[0]}://",
            **settings,
        )
        # Touched on the I/O thread only.
        self._nodes: dict[str, dict[Connection, str]] = {}
        self._cuts = dict.fromkeys(Connection, 0)
        self._open: set[Future[Any]] = set()
        self._closed = False
        self._spoken = False  # with any broker, so that the settings fit
        self._net.start()

    # -- members -------------------------------------------------------------------------------

    def find_coordinator(self, group: str, timeout_ms: int) -> Future[str]:
        """Look the coordinator up afresh; the result is its address, different for another one.

        The future's exception is ``TransportError``, or ``CoordinatorRefused`` with Kafka's code.
        """
        return self._start(lambda: self._find(group, self._deadline(timeout_ms)))

    def send(
        self, request: Request, connection: Connection | str, timeout_ms: int
    ) -> Future[Answer]:
        """Send to the group's coordinator, which is looked up if it is not known.

        The future's exception is ``TransportError``: then the request may have been carried out,
        unless ``sent`` is False, and will not be sent any more.
        """
        way = Connection(connection)
        return self._start(lambda: self._exchange(request, way, self._deadline(timeout_ms)))

    def hang_up(self, connection: Connection | str) -> None:
        """Cut the connection; what waits for an answer on it, or to be sent, fails."""
        way = Connection(connection)

        async def cut() -> None:
            self._cuts[way] += 1
            for nodes in self._nodes.values():
                self._manager.close(nodes[way])

        self._start(cut)

    def close(self) -> None:
        """End the I/O thread; futures that are not done fail. Not to be called on that thread."""
        if self._closed:
            return
        self._closed = True
        if self._tokens is not None:
            self._tokens.close()
        try:
            self._net.run(self._manager.close)
        except Exception as error:  # the loop died, and every caller was given the error
            log.warning("closing the group's connections: %s", error)
        self._net.stop(5_000)
        self._net.close()
        for future in list(self._open):
            if not future.done():
                future.set_exception(TransportError(FailureKind.CLOSED, "the transport is closed"))

    # -- tools ---------------------------------------------------------------------------------

    def describe_group(self, group: str, timeout_ms: int) -> Future[GroupDescription]:
        """A group as its coordinator sees it; state Dead if there is none."""
        fields: dict[str, object] = {"groups": [group], "include_authorized_operations": False}
        # Version 6 answers with an error where 5 says that the group is Dead.
        request = WireRequest("DescribeGroups", 4, 5, fields)

        async def describe() -> GroupDescription:
            until = self._deadline(timeout_ms)
            response = await self._ask(group, request, until, lambda a: a.groups[0].error_code)
            return decode_group(response.groups[0])

        return self._start(describe)

    def ask(self, request: Request, timeout_ms: int) -> Future[Answer]:
        """Ask the group's coordinator; again while it is moving or loading the group.

        For requests that change nothing, from callers that are no members.
        """

        def passing(response: Any) -> int:
            return min(codes_of(decode(request, response)) & (_MOVED | _NOT_YET), default=0)

        async def asked() -> Answer:
            deadline = self._deadline(timeout_ms)
            response = await self._ask(request.group, encode(request), deadline, passing)
            return decode(request, response)

        return self._start(asked)

    def check_version(self, timeout_ms: int) -> Future[None]:
        """Done once a broker has answered that is new enough; raises as ``find_coordinator``."""

        async def asked() -> None:
            await self._find("", self._deadline(timeout_ms), any_broker=True)

        return self._start(asked)

    def list_groups(self, timeout_ms: int) -> Future[list[GroupListing]]:
        """The groups of all brokers of the cluster, by name."""

        async def listing() -> list[GroupListing]:
            deadline = self._deadline(timeout_ms)
            await self._find("", deadline, any_broker=True)
            found: list[GroupListing] = []
            for broker in self._manager.cluster.brokers():
                request = WireRequest("ListGroups", 0, 4, {"states_filter": []})
                for g in (await self._deliver(request, broker.node_id, deadline)).groups:
                    found.append(GroupListing(g.group_id, g.protocol_type, g.group_state or ""))
            return sorted(found, key=lambda listed: listed.group)

        return self._start(listing)

    def remove_members(
        self, group: str, instance_ids: Sequence[str], timeout_ms: int, reason: str = ""
    ) -> Future[dict[str, int]]:
        """Remove static members in one request; the result is Kafka's code for each static id."""

        async def remove() -> dict[str, int]:
            request = encode_leave(group, [("", one) for one in instance_ids], reason)
            deadline = self._deadline(timeout_ms)
            response = await self._ask(group, request, deadline, lambda answer: answer.error_code)
            if response.error_code:
                return dict.fromkeys(instance_ids, response.error_code)
            return {m.group_instance_id: m.error_code for m in response.members}

        return self._start(remove)

    def delete_group(self, group: str, timeout_ms: int) -> Future[int]:
        """Delete a group with its positions; the result is Kafka's code, 0 for none."""
        request = WireRequest("DeleteGroups", 0, 2, {"groups_names": [group]})

        async def delete() -> int:
            until = self._deadline(timeout_ms)
            answer = await self._ask(group, request, until, lambda a: a.results[0].error_code)
            return int(answer.results[0].error_code)

        return self._start(delete)

    def log_sizes(
        self, topics: Mapping[str, Sequence[int]], timeout_ms: int
    ) -> Future[dict[TopicPartition, int]]:
        """Bytes that partitions take on disk, of the largest replica; asks every broker.

        What we may not see, or what no broker has, is left out.
        """

        async def sizes() -> dict[TopicPartition, int]:
            deadline = self._deadline(timeout_ms)
            await self._find("", deadline, any_broker=True)
            request = encode_log_sizes(topics)
            largest: dict[TopicPartition, int] = {}
            for broker in self._manager.cluster.brokers():
                response = await self._deliver(request, broker.node_id, deadline)
                for partition, size in decode_log_sizes(response):
                    largest[partition] = max(largest.get(partition, 0), size)
            return largest

        return self._start(sizes)

    # -- on the I/O thread ---------------------------------------------------------------------

    def _start(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        future: Future[T] = Future()

        async def run() -> None:
            try:
                result = await work()
            except Exception as error:  # every failure belongs to the future's caller
                _settle(future, error=error)
            else:
                _settle(future, result)

        self._open.add(future)
        future.add_done_callback(self._open.discard)
        try:
            self._net.call_soon_threadsafe(run)
        except Exception as error:  # the loop has ended, or died of this
            _settle(future, error=TransportError(FailureKind.CLOSED, str(error)))
        return future

    async def _ask(
        self, group: str, request: WireRequest, deadline: int, code: Callable[[Any], int]
    ) -> Any:
        """Ask the coordinator; again while it is moving or loading the group, until the deadline.

        ``code`` reads the error code that tells so.
        """
        while True:
            node = (await self._coordinator(group, deadline))[Connection.MAIN]
            try:
                response = await self._deliver(request, node, deadline)
            except TransportError:
                self._nodes.pop(group, None)  # it may have moved: look it up again
                raise
            late = self._clock.now_ms() + _FIND_PAUSE_MS >= deadline
            if code(response) not in _MOVED | _NOT_YET or late:
                return response
            self._nodes.pop(group, None)
            await self._net.sleep(_FIND_PAUSE_MS / 1000)

    async def _exchange(self, request: Request, way: Connection, deadline: int) -> Answer:
        cut = self._cuts[way]
        nodes = await self._coordinator(request.group, deadline)
        try:
            response = await self._deliver(encode(request), nodes[way], deadline, (way, cut))
        except TransportError:
            self._nodes.pop(request.group, None)  # it may have moved: look it up again
            raise
        answer = decode(request, response)
        if codes_of(answer) & _MOVED:
            self._nodes.pop(request.group, None)
        return answer

    async def _coordinator(self, group: str, deadline: int) -> dict[Connection, str]:
        if group not in self._nodes:
            await self._find(group, deadline)
        return self._nodes[group]

    async def _find(self, group: str, deadline: int, any_broker: bool = False) -> str:
        """Ask the brokers in turn until one knows, or (``any_broker``) until one answers."""
        cause, seen = _NO_ANSWER, None
        while True:
            for node in self._candidates():
                if deadline <= self._clock.now_ms():
                    raise TransportError(
                        FailureKind.TIMEOUT, f"cannot reach {self._servers}: {cause}", sent=False
                    )
                attempt = min(deadline, self._clock.now_ms() + _ATTEMPT_MS)
                request = WireRequest("FindCoordinator", 1, 3, {"key": group, "key_type": 0})
                try:
                    found = await self._deliver(request, node, attempt)
                    refuse_old(self._manager.broker_version_data)
                    await self._refresh(node, attempt)
                    self._spoken = True
                except TransportError as error:
                    if not error.passing:
                        raise await self._named(error, deadline) from error
                    if error.kind is not FailureKind.TIMEOUT or cause == _NO_ANSWER:
                        cause = str(error)  # between two attempts it is only "not reachable"
                        log.debug("looking for the coordinator of %s: %s", group, cause)
                    continue
                if any_broker:
                    return ""
                if found.error_code == 0:
                    return self._note(group, found)
                if found.error_code not in _NOT_YET:
                    raise CoordinatorRefused(found.error_code, group)
                cause = name_of(found.error_code)
            if not self._spoken:
                seen = seen or self._look()
                if seen.done() and (misfit := seen.result()):
                    raise TransportError(FailureKind.AUTHENTICATION, misfit, sent=False)
            await self._net.sleep(_FIND_PAUSE_MS / 1000)

    async def _named(self, error: TransportError, deadline: int) -> TransportError:
        """The error that names the setting where no login is asked for; else the one given."""
        if not isinstance(error.__cause__, kafka_errors.IllegalSaslStateError):
            return error
        seen = self._look()
        while not seen.done() and self._clock.now_ms() < deadline:
            await self._net.sleep(_FIND_PAUSE_MS / 1000)
        misfit = seen.result() if seen.done() else ""
        return TransportError(error.kind, misfit, sent=False) if misfit else error

    async def _refresh(self, node: Any, deadline: int) -> None:
        """Learn what brokers there are. By itself kafka-python would wait half a minute."""
        refreshed = self._manager.call_soon(self._manager.cluster.refresh_metadata, node)
        try:
            await self._manager.wait_for(refreshed, max(0, deadline - self._clock.now_ms()))
        except kafka_errors.KafkaError as error:
            raise TransportError(failure_kind(error), failure_text(error)) from error

    def _candidates(self) -> list[Any]:
        cluster = self._manager.cluster
        brokers = [*cluster.bootstrap_brokers(), *cluster.brokers()]
        return [broker.node_id for broker in brokers]

    def _note(self, group: str, found: Any) -> str:
        """Name one node per connection: the manager keeps one connection per name."""
        self._nodes[group] = {
            way: self._manager.cluster.add_coordinator(
                SimpleNamespace(
                    error_code=0,
                    node_id=f"{found.node_id}-{found.host}:{found.port}-{way}",
                    host=found.host,
                    port=found.port,
                ),
                metadata.CoordinatorType.GROUP,
                group,
            )
            for way in Connection
        }
        return f"{found.node_id} {found.host}:{found.port}"

    async def _deliver(
        self,
        request: WireRequest,
        node: Any,
        deadline: int,
        valid: tuple[Connection, int] | None = None,
    ) -> Any:
        """Send over the node's connection, as soon as there is one, and return the response.

        ``valid`` is a connection and the number of its cuts when the request was made: one that is
        older than a cut must not go out behind those made later.
        """
        message = _REQUESTS[request.name](
            **request.fields, min_version=request.min_version, max_version=request.max_version
        )
        while True:
            remaining = deadline - self._clock.now_ms()
            if remaining <= 0:
                raise TransportError(FailureKind.TIMEOUT, f"{node} is not reachable", sent=False)
            if valid is not None and self._cuts[valid[0]] != valid[1]:
                raise TransportError(FailureKind.DISCONNECTED, "hung up", sent=False)
            if self._tokens is not None and node not in self._manager._conns:
                await self._tokens.ready(self._net.sleep, deadline)
            link = None
            try:
                # No background refresh of metadata when the connection breaks: we look up again.
                link = self._manager.get_connection(
                    node, timeout_ms=min(remaining, _ATTEMPT_MS), refresh_metadata_on_err=False
                )
                future = link.send_request(message, request_timeout_ms=remaining)
                return await self._manager.wait_for(future, remaining)
            except kafka_errors.NodeNotReadyError:
                await self._net.sleep(_RETRY_PAUSE_MS / 1000)
            except kafka_errors.KafkaError as error:
                too_old = isinstance(error, kafka_errors.IncompatibleBrokerVersion)
                sent = link is not None and link.init_future.succeeded() and not too_old
                raise TransportError(failure_kind(error), failure_text(error), sent=sent) from error

    def _deadline(self, timeout_ms: int) -> int:
        return self._clock.now_ms() + timeout_ms


def _settle(future: Future[T], result: T | None = None, error: Exception | None = None) -> None:
    """Resolve a future that ``close`` may have failed meanwhile."""
    try:
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]
    except InvalidStateError:
        log.debug("an answer came after the transport was closed")
