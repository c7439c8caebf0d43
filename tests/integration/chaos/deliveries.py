"""Produce requests that fail on purpose, between producers and their broker."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable

from kafka.protocol.producer import ProduceRequest, ProduceResponse

from tests.integration.learners.proxy import PRODUCE, Interference, api

REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND = 7, 19, 20

#: What is done to a batch: whether the broker gets it, and the error that its producer gets.
FAILURES: dict[str, tuple[bool, int | None]] = {
    "never arrives": (False, None),
    "answer is lost": (True, None),
    "refused": (False, NOT_ENOUGH_REPLICAS),
    "timed out": (False, REQUEST_TIMED_OUT),
    "timed out, yet written": (True, REQUEST_TIMED_OUT),
    "written by too few": (True, NOT_ENOUGH_REPLICAS_AFTER_APPEND),
}


class DeliveryFailures:
    """Makes single batches to some topics fail; to be the ``interfere`` of a proxy.

    Args:
        concerned: whether batches of a topic may fail.
        share: how many of the batches fail.
        dice: which ones, and how.
    """

    def __init__(self, concerned: Callable[[str], bool], share: float, dice: random.Random) -> None:
        self._concerned = concerned
        self._share = share
        self._dice = dice
        self._lock = threading.Lock()
        self._ended = False
        #: Failures made, by kind and topic.
        self.made: Counter[tuple[str, str]] = Counter()

    def __call__(self, frame: bytes) -> Interference | None:
        """Decide on a request."""
        if api(frame) != PRODUCE:
            return None
        version = int.from_bytes(frame[6:8], "big")
        request = ProduceRequest.decode(frame[4:], version=version, header=True)
        topics = [topic.name for topic in request.topic_data]
        with self._lock:
            concerned = not self._ended and all(map(self._concerned, topics))
            if not concerned or self._dice.random() >= self._share:
                return None
            kind = self._dice.choice(sorted(FAILURES))
            self.made.update((kind, topic) for topic in topics)
        arrives, error = FAILURES[kind]
        return Interference(arrives, None if error is None else _refused(request, version, error))

    def end(self) -> None:
        """Let all requests through from now on."""
        with self._lock:
            self._ended = True

    @property
    def kinds(self) -> Counter[str]:
        """Failures made, by kind."""
        found: Counter[str] = Counter()
        for (kind, _), count in self.made.items():
            found[kind] += count
        return found


def _refused(request: ProduceRequest, version: int, error: int) -> bytes:
    """The answer that says this error of each batch."""
    topic_answer = ProduceResponse.TopicProduceResponse
    batch_answer = topic_answer.PartitionProduceResponse
    answer = ProduceResponse(
        responses=[
            topic_answer(
                name=topic.name,
                partition_responses=[
                    batch_answer(index=batch.index, error_code=error, base_offset=-1)
                    for batch in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ],
        throttle_time_ms=0,
    )
    answer.API_VERSION = version
    answer.with_header(correlation_id=request.header.correlation_id)
    return bytes(answer.encode(header=True, framed=True))
