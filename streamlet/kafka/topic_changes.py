"""Changes of topics that exist: their settings, and the records that they begin with."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as RawPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from streamlet.kafka.codes import NO_ANSWER, NOT_NOW, STALE_LEADER
from streamlet.logs import get_logger
from streamlet.rights import REFUSED, Right, missing

log = get_logger(__name__)


def alterations(settings: Mapping[str, Mapping[str, str]]) -> list[ConfigResource]:
    """The request to set these settings of topics and leave the others as they are."""
    set_to = AlterConfigOpType.SET
    return [
        ConfigResource(
            ConfigResource.Type.TOPIC,
            topic,
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=set_to)
                for name, value in own.items()
            ],
        )
        for topic, own in settings.items()
    ]


class RefusedDeletions:
    """Warns of topics whose records the broker does not delete, once for each reason."""

    def __init__(self) -> None:
        self._warned: set[tuple[str, int]] = set()

    def watch(self, answers: Mapping[RawPartition, Future[Any]]) -> None:
        """Look at the answers when they come."""
        for raw, answer in answers.items():
            answer.add_done_callback(partial(self._take, raw.topic))

    def _take(self, topic: str, answer: Future[Any]) -> None:
        error = None if answer.cancelled() else answer.exception()
        if not isinstance(error, KafkaException):
            return
        cause = error.args[0]
        code = cause.code()
        passing = code in NO_ANSWER or code in NOT_NOW or code in STALE_LEADER
        if not passing and (topic, code) not in self._warned:
            self._warned.add((topic, code))
            log.warning(
                "the broker does not delete records of %s that are not needed any more, so it "
                "grows: %s (%s)",
                topic,
                missing(Right("DELETE", "topic", topic)) if code in REFUSED else cause.str(),
                cause.name(),
            )
