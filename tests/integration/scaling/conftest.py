"""Clusters of real instances, as the chaos tests have them."""

from __future__ import annotations

from tests.integration.chaos.conftest import make_cluster

__all__ = ["make_cluster"]
