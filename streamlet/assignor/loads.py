"""The loads of instances: how much each should carry (the band), and how much it does.

All comparisons are made in whole numbers and fractions, so 12 tasks of an expected 10 are inside a
band of 20 %.
"""

from __future__ import annotations

import math
from fractions import Fraction

import attrs

from streamlet.assignor.order import View, exact


@attrs.frozen
class Band:
    """The loads an instance may have without anything being moved for it, both ends included."""

    low: int
    high: int

    @classmethod
    def around(cls, expected: Fraction, imbalance: Fraction) -> Band:
        """The band about an expected load; it always contains the whole numbers next to it."""
        return cls(
            low=min(math.ceil(expected * (1 - imbalance)), math.floor(expected)),
            high=max(math.floor(expected * (1 + imbalance)), math.ceil(expected)),
        )

    def excess(self, load: int) -> int:
        """By how much a load is outside."""
        return max(load - self.high, self.low - load, 0)


#: The band of an instance that leaves: it should end with nothing and may have nothing.
EMPTY = Band(0, 0)


@attrs.define
class InstanceLoad:
    """The load of every instance for one kind of task, while a plan is being made."""

    bands: list[Band]
    stays: list[bool]
    scale: list[int]  # load * scale is the load relative to capacity, comparable in whole numbers
    load: list[int]

    @classmethod
    def open(cls, view: View, total: int) -> InstanceLoad:
        """An empty ledger for tasks that weigh ``total`` together."""
        stays = [instance.stays for instance in view.instances]
        shares = _shares(view)
        imbalance = exact(view.group.rules.imbalance)
        bands = [
            Band.around(total * share, imbalance) if stay else EMPTY
            for share, stay in zip(shares, stays, strict=True)
        ]
        return cls(bands, stays, _scales(shares), [0] * len(stays))

    def relative(self, instance: int) -> int:
        """The load relative to capacity, in units that are the same for all instances."""
        return self.load[instance] * self.scale[instance]

    def under(self, instance: int) -> int:
        """The load that is missing to the lower end of the band."""
        return max(self.bands[instance].low - self.load[instance], 0)

    def over(self, instance: int) -> int:
        """The load beyond the upper end of the band."""
        return max(self.load[instance] - self.bands[instance].high, 0)

    def room(self, instance: int) -> int:
        """The load that still fits under the upper end of the band."""
        return max(self.bands[instance].high - self.load[instance], 0)

    def change(self, instance: int, weight: int) -> int:
        """By how much an instance's excess grows if its load changes by ``weight``."""
        band, load = self.bands[instance], self.load[instance]
        return band.excess(load + weight) - band.excess(load)

    def gain(self, source: int, target: int, weight: int) -> int:
        """By how much moving ``weight`` from source to target lowers the two instances' excess."""
        return -self.change(source, -weight) - self.change(target, weight)


def _shares(view: View) -> list[Fraction]:
    """Each instance's share of the whole; leaving ones have none."""
    capacities = [i.capacity if i.stays else Fraction(0) for i in view.instances]
    whole = sum(capacities, Fraction(0))
    if whole <= 0:  # capacities of 0 everywhere: then all are alike
        capacities = [Fraction(int(i.stays)) for i in view.instances]
        whole = sum(capacities, Fraction(0))
    return [capacity / whole if whole else capacity for capacity in capacities]


def _scales(shares: list[Fraction]) -> list[int]:
    common = math.lcm(*(share.numerator for share in shares if share))
    multiple = common * math.lcm(*(share.denominator for share in shares))
    # No capacity: as good as full already, so such an instance comes last.
    return [int(multiple / share) if share else multiple * multiple for share in shares]
