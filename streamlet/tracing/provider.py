"""The provider of spans: the program's, or one by the OTEL_* variables."""

from __future__ import annotations

import os
import threading
from importlib.metadata import entry_points, version

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from streamlet.errors import ConfigError

#: How long a worker that ends waits for its last spans to be exported, ms.
FLUSH_MS = 2_000

_GROUP = "opentelemetry_traces_exporter"
_INSTANCE = "service.instance.id"
_SETTING = threading.Lock()


def tracer_of(provider: trace.TracerProvider) -> trace.Tracer:
    """The tracer that streamlet's spans are begun with."""
    return provider.get_tracer("streamlet", version("streamlet"))


def flush(provider: trace.TracerProvider) -> None:
    """Export the spans that have ended; an exporter that is away is not waited for."""
    export = getattr(provider, "force_flush", None)
    if export is not None:
        thread = threading.Thread(target=export, name="streamlet-spans", daemon=True)
        thread.start()
        thread.join(FLUSH_MS / 1000)


def provider_of_process(application: str, instance: str) -> trace.TracerProvider:
    """The provider of this process; where the program has set none, one by the variables.

    Args:
        application: the service's name, unless the variables have one.
        instance: the service's instance, likewise.

    Raises:
        ConfigError: OTEL_TRACES_EXPORTER names an exporter that is not installed.
    """
    with _SETTING:
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            trace.set_tracer_provider(_by_variables(application, instance))
        return trace.get_tracer_provider()


def _by_variables(application: str, instance: str) -> TracerProvider:
    """A provider whose sampler, limits, resource and exporters the OTEL_* variables name."""
    given = OTELResourceDetector().detect().attributes
    own = {SERVICE_NAME: application, _INSTANCE: instance}
    resource = Resource.create({**own, **given})
    provider = TracerProvider(resource=resource)
    for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        if name.strip() not in ("", "none"):
            provider.add_span_processor(BatchSpanProcessor(_exporter(name.strip())()))
    return provider


def _exporter(name: str) -> type:
    """The class of an exporter, by the name that OTEL_TRACES_EXPORTER gives it."""
    wanted = name
    if name == "otlp":
        general = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", general)
        wanted = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    found = {one.name: one for one in entry_points(group=_GROUP)}
    if wanted not in found:
        known = ", ".join(sorted(found)) or "none"
        raise ConfigError(
            [f"OTEL_TRACES_EXPORTER: {name!r} needs the exporter {wanted!r}; installed: {known}"]
        )
    made: type = found[wanted].load()
    return made
