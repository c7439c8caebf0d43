"""Turns tracing on for a worker, where the application is to be traced."""

from __future__ import annotations

from streamlet.errors import ConfigError
from streamlet.hosting.hosted import HostedApp
from streamlet.tracing.off import NoTracing


def worker_tracing(app: HostedApp, instance: str) -> NoTracing:
    """Makes the parts of a worker that have spans, or have none if the application is not traced.

    Args:
        app: the application.
        instance: the name of the worker.

    Raises:
        ConfigError: the extra ``otel`` is not installed, or not the exporter that is asked for.
    """
    if app.tracer_provider is None and not app.settings.tracing_enabled:
        return NoTracing()
    try:
        from streamlet.tracing.worker import WorkerTracing
    except ImportError as error:
        raise ConfigError(
            [f"tracing.enabled needs the extra otel ({error.name}): pip install 'streamlet[otel]'"]
        ) from error
    rows = app.settings.tracing_rows
    return WorkerTracing(app.tracer_provider, app.name, instance, rows)
