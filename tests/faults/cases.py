"""The faults of a request: each error that Kafka documents for its kind, and lost answers.

Of requests to a group the errors are those of ``coordinator.codes``; of the others those of the
pages of Kafka's protocol and of its response classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from streamlet.control.topic import is_control_topic
from streamlet.coordinator.codes import NAMES, TABLE, RequestKind
from streamlet.testing import Fault, FaultProxy
from streamlet.testing.faults.fault import Which
from streamlet.testing.faults.wire import ProxiedRequest

GUARANTEES = ("at_least_once", "exactly_once")
#: Look-ups of the coordinator of a transactional id, which a producer makes: beside those that a
#: member makes of its group's.
OF_TRANSACTIONS = "FindCoordinator (transactional id)"
#: Longer than any of an application's requests waits for its answer here, ms.
DELAY_MS = 7_000
#: What any request may be answered with: the broker failed, or had no time.
_ANY = ("UNKNOWN_SERVER_ERROR", "REQUEST_TIMED_OUT")
_FETCHED = (
    "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "REPLICA_NOT_AVAILABLE",
    "KAFKA_STORAGE_ERROR",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "TOPIC_AUTHORIZATION_FAILED",
)
_COORDINATOR = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
_TRANSACTION = (
    *_COORDINATOR,
    "INVALID_PRODUCER_EPOCH",
    "INVALID_PRODUCER_ID_MAPPING",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "PRODUCER_FENCED",
    "UNSUPPORTED_VERSION",
    "INVALID_REQUEST",
)
_OTHERS: dict[str, Sequence[str]] = {
    OF_TRANSACTIONS: (
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "INVALID_REQUEST",
    ),
    "Produce": (
        "CORRUPT_MESSAGE",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "NOT_LEADER_OR_FOLLOWER",
        "MESSAGE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_TOPIC_EXCEPTION",
        "INVALID_TIMESTAMP",
        "INVALID_RECORD",
        "INVALID_REQUIRED_ACKS",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "KAFKA_STORAGE_ERROR",
        "INVALID_PRODUCER_EPOCH",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "DUPLICATE_SEQUENCE_NUMBER",
        "UNKNOWN_PRODUCER_ID",
        "INVALID_PRODUCER_ID_MAPPING",
        "INVALID_TXN_STATE",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ),
    "Fetch": (
        *_FETCHED,
        "OFFSET_OUT_OF_RANGE",
        "OFFSET_NOT_AVAILABLE",
        "CORRUPT_MESSAGE",
        "UNSUPPORTED_COMPRESSION_TYPE",
        "UNKNOWN_TOPIC_ID",
        "INCONSISTENT_TOPIC_ID",
        "FETCH_SESSION_TOPIC_ID_ERROR",
    ),
    "ListOffsets": (
        *_FETCHED,
        "LEADER_NOT_AVAILABLE",
        "OFFSET_NOT_AVAILABLE",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    ),
    "Metadata": (
        "UNKNOWN_TOPIC_OR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "INVALID_TOPIC_EXCEPTION",
        "TOPIC_AUTHORIZATION_FAILED",
    ),
    "InitProducerId": (
        *_TRANSACTION,
        "INVALID_TRANSACTION_TIMEOUT",
        "CONCURRENT_TRANSACTIONS",
        "CLUSTER_AUTHORIZATION_FAILED",
    ),
    "AddPartitionsToTxn": (
        *_TRANSACTION,
        "CONCURRENT_TRANSACTIONS",
        "INVALID_TXN_STATE",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "TOPIC_AUTHORIZATION_FAILED",
        "OPERATION_NOT_ATTEMPTED",
    ),
    "AddOffsetsToTxn": (
        *_TRANSACTION,
        "CONCURRENT_TRANSACTIONS",
        "INVALID_TXN_STATE",
        "GROUP_AUTHORIZATION_FAILED",
    ),
    "TxnOffsetCommit": (
        *_TRANSACTION,
        "UNKNOWN_TOPIC_OR_PARTITION",
        "ILLEGAL_GENERATION",
        "UNKNOWN_MEMBER_ID",
        "FENCED_INSTANCE_ID",
        "OFFSET_METADATA_TOO_LARGE",
        "INVALID_COMMIT_OFFSET_SIZE",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
    ),
    "EndTxn": (*_TRANSACTION, "INVALID_TXN_STATE"),
}
#: The errors that a kind of request may be answered with, as Kafka documents them.
DOCUMENTED: dict[str, tuple[str, ...]] = {
    **{
        kind.value: tuple(NAMES[code] for of, code in TABLE if of is kind and code)
        for kind in RequestKind
    },
    **{api: (*_ANY, *errors) for api, errors in _OTHERS.items()},
}
#: Kinds of requests that an application of one guarantee alone sends.
_ONLY = {
    "OffsetCommit": "at_least_once",
    **dict.fromkeys(
        (OF_TRANSACTIONS, "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"),
        "exactly_once",
    ),
}
#: Kinds of requests that change nothing: an answer that is lost is as good as a lost request.
_READS = frozenset(
    {"FindCoordinator", OF_TRANSACTIONS, "OffsetFetch", "Fetch", "ListOffsets", "Metadata"}
)
#: Errors that a broker may give though it has done what was asked.
_AFTER = {
    "UNKNOWN_SERVER_ERROR",
    "REQUEST_TIMED_OUT",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "DUPLICATE_SEQUENCE_NUMBER",
}
#: Of these it has always done it; clients take the last one as a success.
_ALWAYS_AFTER = frozenset({"NOT_ENOUGH_REPLICAS_AFTER_APPEND", "DUPLICATE_SEQUENCE_NUMBER"})
_LOSSES = ("disconnect", "delay", "black hole")
#: The newest FindCoordinator that librdkafka sends; the kind of key of a transactional id.
_LIBRDKAFKAS, _TRANSACTIONAL_ID = 2, 1
#: How the ids of those of our clients begin that are no member's.
_NO_MEMBERS = "streamlet"
_CHANGES = frozenset({"Produce", "OffsetCommit", "TxnOffsetCommit", "EndTxn"})


@attrs.frozen(order=True)
class Case:
    """One kind of fault of one kind of request.

    Attributes:
        api: the kind of request, as ``"EndTxn"``, or ``OF_TRANSACTIONS``.
        effect: ``"disconnect"``, ``"delay"``, ``"black hole"``, or Kafka's name of an error.
        after: the broker gets the request; the fault happens to its answer.
    """

    api: str
    effect: str
    after: bool = False

    def __str__(self) -> str:
        return f"{self.api}, {self.effect}{', done' if self.after else ''}"

    def sent_under(self, guarantee: str) -> bool:
        """True if an application of this guarantee sends such requests."""
        return _ONLY.get(self.api, guarantee) == guarantee

    def inject(self, proxy: FaultProxy, nth: int) -> Fault:
        """Make it happen once, to the n-th request of the kind from now on."""
        api, where = self.api, _matters
        if api in _LOOK_UPS:
            api, where = "FindCoordinator", _LOOK_UPS[api]
        which = Which(nth=nth, times=1, after=self.after, where=where)
        effects: dict[str, Any] = {
            "disconnect": proxy.disconnect,
            "black hole": proxy.black_hole,
        }
        if self.effect == "delay":
            return proxy.delay(api, DELAY_MS, **which)
        if self.effect in effects:
            made: Fault = effects[self.effect](api, **which)
            return made
        return proxy.refuse(api, self.effect, **which)


def _matters(request: ProxiedRequest) -> bool:
    """False for requests whose answers change nothing.

    Those of the control topic's readers and writers.
    """
    if request.api not in ("Produce", "Fetch", "ListOffsets"):
        return True
    return bool(request.topics) and not any(map(is_control_topic, request.topics))


def _finds_a_transactions(request: ProxiedRequest) -> bool:
    """True if the coordinator of a transactional id is looked up."""
    return bool(request.body.key_type == _TRANSACTIONAL_ID)


def _finds_a_members(request: ProxiedRequest) -> bool:
    """True if a member looks up the coordinator of its group.

    Consumers of librdkafka that are no members look it up too, an instance does before it has
    members, and a look-up without a group asks a broker only whether it is there: their errors
    change nothing.
    """
    ours = request.version > _LIBRDKAFKAS and not (request.client_id or "").startswith(_NO_MEMBERS)
    return ours and bool(request.body.key)


_LOOK_UPS = {"FindCoordinator": _finds_a_members, OF_TRANSACTIONS: _finds_a_transactions}


def cases_of(api: str) -> Iterator[Case]:
    """All faults of a kind of request."""
    for effect in _LOSSES:
        yield Case(api, effect)
        if api not in _READS:
            yield Case(api, effect, after=True)
    for error in DOCUMENTED[api]:
        if error not in _ALWAYS_AFTER:
            yield Case(api, error)
        if api in _CHANGES and error in _AFTER:
            yield Case(api, error, after=True)


#: All of them.
CASES = tuple(case for api in DOCUMENTED for case in cases_of(api))
