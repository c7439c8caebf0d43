"""Error handlers on Spark: asked there as elsewhere, or refused by name."""

from __future__ import annotations

import pytest

from streamlet.errors import ConfigError
from streamlet.runtime.policy import ErrorPolicy
from streamlet.spark.prepare import _check_policy


def test_a_handler_of_errors_that_end_a_worker_is_refused() -> None:
    _check_policy(ErrorPolicy.of("skip"))
    with pytest.raises(ConfigError, match="uncaught_handler: not on Spark, which tries a task"):
        _check_policy(ErrorPolicy.of("skip", "replace_thread"))
