"""Resolves the instances that a command names, and checks whether it may be done: pure.

Nothing is marked before everything here has been said; so an unknown name, or a percentage
that cannot be, marks no instance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from streamlet.admin.snapshot import SHORT_ID, InstanceSnapshot, called
from streamlet.errors import ConfigError, NotFoundError, RefusedError
from streamlet.scaling.leavers import Burden, choose_leavers, in_order


def check_percent(percent: float) -> float:
    """A percentage that may stay.

    Raises:
        ConfigError: it is 0 or less, or more than 100.
    """
    if not 0 < percent <= 100:
        raise ConfigError(
            [f"percent is {percent:g}: it says how much stays, above 0 and up to 100"]
        )
    return percent


def find(
    all_instances: Sequence[InstanceSnapshot], names: Iterable[str]
) -> tuple[InstanceSnapshot, ...]:
    """The instances of these names, each once.

    A process id serves as a name, and so does its beginning, which ``streamlet status`` shows.

    Raises:
        NotFoundError: a name that no instance bears.
        RefusedError: a name that several bear.
    """
    found: dict[str, InstanceSnapshot] = {}
    unknown: list[str] = []
    for name in dict.fromkeys(names):
        alike = [one for one in all_instances if name in (one.name, one.key)]
        if not alike and len(name) >= SHORT_ID:
            alike = [one for one in all_instances if one.key.startswith(name)]
        if len(alike) > 1:
            raise RefusedError(
                f"{len(alike)} instances are called {name}; say which one by its process id: "
                + ", ".join(one.key for one in alike)
            )
        if alike:
            found[alike[0].key] = alike[0]
        else:
            unknown.append(name)
    if unknown:
        there = ", ".join(in_order(called(all_instances).values())) or "none"
        raise NotFoundError(
            f"no instance is called {' or '.join(name or repr('') for name in unknown)}; "
            f"those that run are: {there}. Nothing was changed"
        )
    return tuple(found.values())


def by_percent(
    all_instances: Sequence[InstanceSnapshot],
    burdens: Mapping[str, Burden],
    percent: float,
    marked: Collection[str],
) -> list[str]:
    """Process ids of all that are to leave so that ``percent`` of the instances stay.

    Those that bear a mark count as instances that are there and leave. So the same command given
    again marks no instance; and as the share would be one of what is left by then, another share
    has to wait until they are gone.

    Raises:
        RefusedError: some are leaving already and more would have to.
    """
    by_name = {_sort_name(one): burdens.get(one.key, Burden()) for one in all_instances}
    keys = {_sort_name(one): one.key for one in all_instances}
    going = [_sort_name(one) for one in all_instances if one.key in marked]
    chosen = [keys[name] for name in choose_leavers(by_name, percent, going)]
    if going and len(chosen) > len(going):
        names = in_order(one.name for one in all_instances if one.key in marked)
        raise RefusedError(
            f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} leaving already: "
            f"{percent:g} % would be of {len(all_instances)} instances. Wait until they have left, "
            "cancel, or say by --name who leaves besides"
        )
    return chosen


def check_some_stay(
    all_instances: Sequence[InstanceSnapshot], leaving: Collection[str], *, asked_twice: bool
) -> None:
    """Check that some instance would stay.

    Raises:
        RefusedError: none would, and that was asked for only once.
    """
    if not asked_twice and all(one.key in leaving for one in all_instances):
        raise RefusedError(
            f"{_all_of(len(all_instances))} would leave and none would go on; nothing was "
            "marked. If that is what you want, ask twice: --yes --yes"
        )


def _all_of(count: int) -> str:
    return "the only instance" if count == 1 else f"all {count} instances"


def _sort_name(one: InstanceSnapshot) -> str:
    """Sort key of an instance: its name, then its process id."""
    return f"{one.name}\0{one.key}"
