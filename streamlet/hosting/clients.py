"""The clients of an application, by its settings: for workers, for commands, for its start."""

from __future__ import annotations

import os
import threading
from functools import cache

from streamlet.admin.window import ApplicationInfo, GroupWindow
from streamlet.clock import Clock, SystemClock
from streamlet.config import Settings
from streamlet.control.topic import ControlTopic, control_topic_name
from streamlet.coordinator.group_client import group_client
from streamlet.kafka.client import KafkaAdmin, KafkaSink, KafkaSource

#: How long a broker is asked which version it has, before the first topic is made.
VERSION_MS = 15_000


def admin_for(settings: Settings) -> KafkaAdmin:
    """An admin client with the application's settings; makes no topic on a broker too old."""

    @cache
    def check_version() -> None:
        with group_client(settings) as transport:
            transport.check_version(VERSION_MS).result()

    return KafkaAdmin(
        settings.bootstrap_servers,
        settings.client_config("admin"),
        before_creating=check_version,
        read_committed=settings.read_committed,
    )


def open_window(
    application: ApplicationInfo, purpose: str, stopped: threading.Event | None = None
) -> GroupWindow:
    """Open a window onto an application; close it, or use it in ``with``.

    Args:
        application: which.
        purpose: a word for the broker's logs, where clients are listed.
        stopped: ends every wait.
    """
    name, settings = application.name, application.settings
    transport = group_client(settings, f"streamlet-{purpose}-{os.getpid()}")
    return GroupWindow(
        application,
        transport,
        lambda: admin_for(settings),
        lambda: open_control(name, settings),
        lambda: operator_source(settings, name),
        stopped or threading.Event(),
    )


def open_control(application: str, settings: Settings, clock: Clock | None = None) -> ControlTopic:
    """The control topic of an application, to read and to write; close it, or use it in ``with``.

    Reading creates nothing: the topic is there as soon as an instance has started.
    """
    topic = control_topic_name(application)
    # A fetch that waits long costs an idle cluster little, and returns when there is something.
    consumer = {"fetch.wait.max.ms": 500, **settings.client_config("consumer")}
    consumer["isolation.level"] = "read_uncommitted"  # no member writes it in transactions
    return ControlTopic(
        application,
        KafkaSource(settings.bootstrap_servers, consumer, name=topic),
        KafkaSink(
            settings.bootstrap_servers,
            settings.client_config("producer"),
            delivery_timeout_ms=settings.session_timeout_ms,
            name=topic,
        ),
        admin_for(settings),
        clock or SystemClock(),
        settings.replication_factor,
    )


def operator_source(settings: Settings, application: str) -> KafkaSource:
    """A consumer with headers, for a command that looks into topics of an application."""
    config = settings.client_config("consumer")
    name = f"{application}-operator"
    return KafkaSource(settings.bootstrap_servers, config, headers=True, name=name)
