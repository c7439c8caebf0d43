"""The application of ``examples/scoring.py`` gives what its text promises."""

from __future__ import annotations

import numpy as np

from examples import scoring
from examples.scoring import Payment
from streamlet.testing import TopologyTestDriver


def test_the_model_tells_fraud_from_other_payments() -> None:
    features, fraud = scoring.made_up(2_000, seed=8)
    assert np.mean((scoring.MODEL.probabilities(features) > 0.5) == fraud) > 0.85


def test_a_payment_has_the_same_risk_in_any_batch() -> None:
    features, _ = scoring.made_up(50, seed=9)
    records = [("card", Payment(a, h, bool(abroad))) for a, h, abroad in features.tolist()]
    with TopologyTestDriver(scoring.app) as driver:
        driver.pipe_inputs("payments", records)
        for key, payment in records:
            driver.pipe_input("payments", key, payment)
        found = [record.value for record in driver.read_output("risks")]
    assert len(found) == 100
    assert np.allclose(found[:50], found[50:])
    assert np.allclose(found[:50], scoring.MODEL.probabilities(features))
