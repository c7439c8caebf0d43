"""A base of what is closed at the end of a ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Closes itself at the end of a ``with`` block."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Free what it holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
