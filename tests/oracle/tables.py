"""The recorded topologies: those written for streamlet, those that cannot be, those that differ.

Each recorded topology is either in ``TOPOLOGIES`` or in ``MISSING``. A topology whose runs are not
equal yet is in ``DIFFERENT`` with its reason, until they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType

import attrs

import streamlet as sl
from tests.oracle import join_topologies, topologies, window_topologies
from tests.oracle.replay import Build


def of_modules(*modules: ModuleType) -> dict[str, Build]:
    """The public functions of modules by the names of their topologies."""
    return {
        name.strip("_").replace("_", "-"): function
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }


#: Topology -> the function that adds it to an application.
TOPOLOGIES: Mapping[str, Build] = of_modules(topologies, window_topologies, join_topologies)


@attrs.frozen
class Need:
    """An operator that streamlet does not have yet; ``is_there`` tells when it does."""

    name: str
    is_there: Callable[[], bool]


def method(kind: type, name: str) -> Need:
    return Need(f"`{kind.__name__}.{name}`", lambda: hasattr(kind, name))


def argument(kind: type, name: str, of: str) -> Need:
    """An argument of a method."""

    def is_there() -> bool:
        return of in inspect.signature(getattr(kind, name)).parameters

    return Need(f"`{of}=` of `{kind.__name__}.{name}`", is_there)


FOREIGN_KEY = argument(sl.KTable, "join", "foreign_key")
GLOBAL_TABLE = method(sl.App, "global_table")
PROCESS = method(sl.KStream, "process")
TRANSFORM_VALUES = method(sl.KTable, "transform_values")
VERSIONED = Need("versioned tables", lambda: hasattr(sl, "versioned"))

_MISSING: Mapping[Need, str] = {
    FOREIGN_KEY: "foreign-key-inner foreign-key-left",
    VERSIONED: """
        table-versioned-filter table-versioned-group-by stream-table-versioned
        stream-table-versioned-grace stream-table-versioned-grace-left
    """,
    GLOBAL_TABLE: "global-table-inner global-table-left",
    PROCESS: """
        processor-named-children fixed-key-processor processor-range-scan punctuate-stream-time
        punctuate-wall-clock punctuate-cancel ttl-by-punctuator dedupe-window-store
        versioned-get-as-of forward-timestamp
    """,
    TRANSFORM_VALUES: "table-transform-values",
    argument(sl.KTable, "filter", "store"): "table-filter-materialized",
    argument(sl.KTable, "map_values", "store"): "table-map-values-materialized",
}

#: Topology -> what has to be there before it can be written.
MISSING: Mapping[str, Need] = {
    name: need for need, names in _MISSING.items() for name in names.split()
}

#: Topology -> why its runs are not equal yet.
DIFFERENT: Mapping[str, str] = {
    "stream-stream-outer-emit-interval": "results without a match are looked for with each record, "
    "not once in a second of wall-clock time",
}
