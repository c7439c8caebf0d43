"""The recorded topologies: those written for streamlet, those that cannot be, those that differ.

Each recorded topology is either in ``TOPOLOGIES`` or in ``MISSING``. A topology whose runs are not
equal yet is in ``DIFFERENT`` with its reason, until they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType

import attrs

from tests.oracle import (
    join_topologies,
    lookup_topologies,
    processor_topologies,
    topologies,
    window_topologies,
)
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
TOPOLOGIES: Mapping[str, Build] = of_modules(
    topologies, window_topologies, join_topologies, lookup_topologies, processor_topologies
)


@attrs.frozen
class Need:
    """An operator that streamlet does not have yet; ``is_there`` tells when it does."""

    name: str
    is_there: Callable[[], bool]


#: Topology -> what has to be there before it can be written.
MISSING: Mapping[str, Need] = {}

#: Topology -> why its runs are not equal yet.
DIFFERENT: Mapping[str, str] = {}

_FILTER = "a filter of its own drops null keys; in Java that is part of the selector"
_BUCKET = "two stores of one bucket of Java's hash table were connected in the other order"
_TWIN = "written for streamlet with other nodes or names, or in another order"

#: Topology -> why ``describe --format java`` prints another text.
OTHER_DESCRIPTION: Mapping[str, str] = {
    "aggregate-timestamps": _TWIN,
    "chain-table-join-group-count": _FILTER,
    "process-values-headers": _TWIN,
    "processor-named-children": _TWIN,
    "stream-stream-left": _BUCKET,
    "stream-stream-left-asymmetric-grace": _BUCKET,
    "stream-stream-left-grace": _BUCKET,
    "stream-table-left": _TWIN,
    "stream-table-versioned-grace": _TWIN,
    "stream-table-versioned-grace-left": _TWIN,
    "table-filter-group-by": _FILTER,
    "table-group-by-aggregate": _FILTER,
    "table-group-by-count": _FILTER,
    "table-group-by-null-key": _FILTER,
    "table-group-by-reduce": _FILTER,
    "table-versioned-group-by": _FILTER,
    "to-topic-by-record": _TWIN,
}
