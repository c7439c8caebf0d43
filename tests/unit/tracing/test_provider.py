"""Providers by OpenTelemetry's variables, and the error where the extra is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

import streamlet as sl
from streamlet.app import hosted
from streamlet.errors import ConfigError
from streamlet.hosting.hosted import HostedApp
from streamlet.hosting.tracing import worker_tracing
from streamlet.tracing.off import NoTracing

pytest.importorskip("opentelemetry.sdk.trace", reason="needs the extra otel")

from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from streamlet.tracing.worker import WorkerTracing
from tests.unit.tracing.spans import Spans


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The provider of the process, once one was set; this process itself gets none."""
    made: list[Any] = []
    proxy = trace.ProxyTracerProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: made[-1] if made else proxy)
    monkeypatch.setattr(trace, "set_tracer_provider", made.append)
    yield made
    for one in made:
        one.shutdown()


def shop(**named: Any) -> HostedApp:
    app = sl.App("shop", **named)
    app.stream("in", key=str, value=str).to("out")
    return hosted(app, app.settings)


def test_variables_say_what_the_provider_is(
    made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console, none")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=red")
    traced = shop(config={"tracing.enabled": True})
    assert isinstance(worker_tracing(traced, "one"), WorkerTracing)
    worker_tracing(traced, "two")
    (provider,) = made
    about = provider.resource.attributes
    assert (about["service.name"], about["service.instance.id"]) == ("shop", "one")
    assert about["team"] == "red"
    assert provider.sampler is ALWAYS_OFF
    assert len(provider._active_span_processor._span_processors) == 1


def test_variables_go_before_our_names_and_an_unknown_exporter_is_an_error(
    made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    traced = shop(config={"tracing.enabled": True})
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "carrier-pigeon")
    with pytest.raises(ConfigError, match="OTEL_TRACES_EXPORTER: 'carrier-pigeon' needs"):
        worker_tracing(traced, "one")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    worker_tracing(traced, "one")
    assert made[0].resource.attributes["service.name"] == "mine"


def test_the_provider_of_the_program_is_used_and_off_is_off(made: list[Any]) -> None:
    assert type(worker_tracing(shop(), "one")) is NoTracing
    own = Spans().provider
    tracing = worker_tracing(shop(tracer_provider=own), "one")
    assert isinstance(tracing, WorkerTracing)
    assert tracing._provider is own
    made.append(Spans().provider)
    tracing = worker_tracing(shop(config={"tracing.enabled": True}), "one")
    assert isinstance(tracing, WorkerTracing)
    assert tracing._provider is made[0]


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = shop(config={"tracing.enabled": True})
    monkeypatch.delitem(sys.modules, "streamlet.tracing.worker")
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(ConfigError, match=r"pip install 'streamlet\[otel\]'"):
        worker_tracing(traced, "one")
