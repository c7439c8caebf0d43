"""Names of nodes, stores and internal topics, the same as Kafka Streams gives them."""

from __future__ import annotations

import re

CHANGELOG_SUFFIX = "-changelog"
REPARTITION_SUFFIX = "-repartition"

#: What a made-up name ends in: the number of the node it was made for.
_NUMBERED = re.compile(r"^(?P<stem>.*-)(?P<number>\d{10})$")


def changelog_name(application: str, store: str) -> str:
    """Topic that keeps a store's changes."""
    return f"{application}-{store}{CHANGELOG_SUFFIX}"


def repartition_name(application: str, name: str) -> str:
    """Topic between two subtopologies."""
    return f"{application}-{name}{REPARTITION_SUFFIX}"


def is_numbered(name: str) -> bool:
    """Whether a name ends in a node's number, as made-up names do."""
    return _NUMBERED.match(name) is not None


def stem(name: str) -> str:
    """A made-up name without its number; a given name as it is."""
    found = _NUMBERED.match(name)
    return found["stem"] if found else name
