"""Input of the benchmark of windows: records of about 40 bytes, keyed by word, a millisecond apart.

A window has twenty records for each key: one of each, and others that follow Zipf's law, in a mixed
order. One record in ``LATE`` comes late for the present window: its time is anywhere in those that
are open. The *preload* comes first, one record of each key in each of the windows that are to be
open when the measurement begins. What it left to be committed is, by the first records after it,
which are not measured either: one in ``WARM``.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

import attrs

from bench.load import fill, key

_SEED = 7
#: Records of a window by keys.
_PER_KEY = 20
#: One record in so many is late.
LATE = 20
#: One record in so many, the first ones, is not measured.
WARM = 4
#: The end of the preload; a multiple of any window's size is added to a window's number.
_FIRST_WINDOW = 1_000


@attrs.frozen
class WindowLoad:
    """Records in windows.

    Args:
        records: behind the preload.
        keys: different ones; each is in each window.
        open_windows: how many windows of each key are open at a time.
    """

    records: int
    keys: int
    open_windows: int

    @property
    def size_ms(self) -> int:
        """The size of a window; a record is a millisecond after the one before."""
        return _PER_KEY * self.keys

    @property
    def grace_ms(self) -> int:
        """The grace with which so many windows are open."""
        return (self.open_windows - 1) * self.size_ms

    @property
    def preload(self) -> int:
        """The number of records before those that are measured."""
        return self.open_windows * self.keys

    @property
    def unmeasured(self) -> int:
        """The number of records before the measurement begins."""
        return self.preload + self.records // WARM

    def all(self) -> Iterator[tuple[int, int]]:
        """Words, as numbers, with their times."""
        rng = random.Random(_SEED)
        size, first = self.size_ms, _FIRST_WINDOW * self.size_ms
        for window in range(-self.open_windows, 0):
            start = first + window * size
            for word in range(self.keys):
                yield word, start + word * _PER_KEY
        weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(self.keys)))
        for index in range(self.records):
            if index % size == 0:
                words = list(range(self.keys))
                words += rng.choices(words, cum_weights=weights, k=size - self.keys)
                rng.shuffle(words)
            back = rng.randint(0, self.grace_ms + index % size) if rng.randrange(LATE) == 0 else 0
            yield words[index % size], first + index - back

    def expected(self) -> dict[tuple[bytes, int], int]:
        """How many records there are of each word and window, by its start."""
        size = self.size_ms
        counts = Counter((word, time - time % size) for word, time in self.all())
        return {(key(word), start): count for (word, start), count in counts.items()}


def load(bootstrap: str, wanted: WindowLoad) -> str:
    """Fill the input topic unless a run before has; its name."""
    topic = f"bench-windows-{wanted.records}-{wanted.keys}-{wanted.open_windows}"
    rows = (
        (topic, b'{"n": %d, "pad": "xxxxxxxx"}' % index, key(word), time_ms)
        for index, (word, time_ms) in enumerate(wanted.all())
    )
    fill(bootstrap, (topic,), wanted.preload + wanted.records, rows)
    return topic
