"""The band, in whole numbers and fractions only."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.assignor.loads import Band
from streamlet.assignor.order import exact

FIFTH = Fraction(1, 5)


@pytest.mark.parametrize(
    ("expected", "width", "low", "high"),
    [
        (Fraction(10), FIFTH, 8, 12),
        (Fraction(10), Fraction(0), 10, 10),
        (Fraction(100, 11), FIFTH, 8, 10),
        (Fraction(100, 11), Fraction(0), 9, 10),
        (Fraction(3), FIFTH, 3, 3),
        (Fraction(5, 3), FIFTH, 1, 2),
        (Fraction(1, 2), FIFTH, 0, 1),
        (Fraction(0), FIFTH, 0, 0),
        (Fraction(3), Fraction(1), 0, 6),
    ],
)
def test_the_band_about_an_expected_load(expected, width, low, high) -> None:
    assert Band.around(expected, width) == Band(low, high)


def test_a_float_means_its_decimal_text() -> None:
    assert exact(0.2) == FIFTH
    assert exact(0.1) + exact(0.2) == exact(0.3)
    assert exact(1e-05) == Fraction(1, 100_000)


def test_twelve_of_ten_are_inside_and_thirteen_are_not() -> None:
    band = Band.around(Fraction(10), exact(0.2))
    assert [band.excess(load) for load in (7, 8, 12, 13)] == [1, 0, 0, 1]


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.integers(0, 200),
    st.sampled_from(["0", "0.05", "0.2", "0.5", "1"]),
)
def test_a_whole_number_of_tasks_always_fits_into_the_bands(
    capacities: list[int], total: int, width: str
) -> None:
    shares = [Fraction(total * capacity, sum(capacities)) for capacity in capacities]
    bands = [Band.around(share, Fraction(width)) for share in shares]
    assert sum(band.low for band in bands) <= total <= sum(band.high for band in bands)
