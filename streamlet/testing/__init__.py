"""The test kit of an application: a real broker, and pieces that need none.

Names are loaded when they are first used: pytest imports this package for the fixtures' sake in
every run, and must not load (or fail to load) a Kafka client for that. To add a name, import it in
``__init__.pyi``.
"""

from __future__ import annotations

from streamlet.lazy_names import load_name, public_names


def __getattr__(name: str) -> object:
    return load_name(__name__, name)


def __dir__() -> list[str]:
    return sorted(public_names(__name__))
