"""The rows of the table of settings that are about tracing."""

from __future__ import annotations

import attrs

from streamlet.config.http_rows import HTTP_GROUP, HttpSettings
from streamlet.config.row import row
from streamlet.config.values import boolean

_GROUP = "tracing"
#: The groups of rows in files of their own, which come last on the page, in this order.
LAST_GROUPS = {HTTP_GROUP: 1, _GROUP: 2}


@attrs.frozen(hash=False)
class TracingSettings(HttpSettings):
    """The settings of OpenTelemetry's spans; rows of ``Settings``."""

    tracing_enabled: bool = row(
        _GROUP,
        boolean(),
        False,
        "[Spans](tracing.md) of what becomes of records, by OpenTelemetry; needs the extra `otel`. "
        "Exporter, sampler, limits and resource are those of the `OTEL_*` variables, or of the "
        "provider that the program sets. `App(tracer_provider=)` turns them on, too.",
    )
