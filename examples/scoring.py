"""A model on a stream: the risk of each payment, computed for many payments at a time.

    streamlet broker start
    streamlet topics create payments risks --partitions 4
    streamlet run examples.scoring:app

The model is a logistic regression in numpy, which is trained when this file is loaded, on payments
that are made up. One of scikit-learn, ONNX Runtime or PyTorch is called in the same place: load it
once, where ``MODEL`` is, and give ``to_numpy()``, ``to_pandas()`` or ``to_arrow()`` to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import attrs
import numpy as np
from numpy.typing import NDArray

import streamlet as sl

Floats = NDArray[np.float64]


@dataclass
class Payment:
    """One payment; ``hours`` have passed since the one before it by the same card."""

    amount: float
    hours: float
    abroad: bool


FEATURES = ("amount", "hours", "abroad")


@attrs.frozen(eq=False)
class LogisticRegression:
    """Weights of features that are centred and scaled."""

    mean: Floats
    scale: Floats
    weights: Floats
    bias: float

    @classmethod
    def trained(cls, features: Floats, labels: Floats, steps: int = 300) -> LogisticRegression:
        """Fit rows of features to labels of 0 and 1, by gradient descent."""
        mean, scale = features.mean(axis=0), features.std(axis=0)
        model = cls(mean, scale, np.zeros(features.shape[1]), 0.0)
        for _ in range(steps):
            errors = model.probabilities(features) - labels
            slopes = model.scaled(features).T @ errors / len(labels)
            model = cls(mean, scale, model.weights - slopes, model.bias - float(errors.mean()))
        return model

    def scaled(self, features: Floats) -> Floats:
        """The features in the units of the weights."""
        return (features - self.mean) / self.scale

    def probabilities(self, features: Floats) -> Floats:
        """The probability of label 1 for each row."""
        sums = self.scaled(features) @ self.weights + self.bias
        return np.asarray(1 / (1 + np.exp(-sums)), np.float64)


def made_up(count: int, seed: int) -> tuple[Floats, Floats]:
    """Features of payments, and 1 for those that were fraud."""
    dice = np.random.default_rng(seed)
    amounts, hours = dice.gamma(2, 40, count), dice.exponential(20, count)
    abroad = dice.random(count) < 0.2
    odds = 0.03 * amounts - 0.3 * hours + 2 * abroad - 2
    fraud = dice.random(count) < 1 / (1 + np.exp(-odds))
    return np.column_stack([amounts, hours, abroad]), fraud.astype(np.float64)


MODEL = LogisticRegression.trained(*made_up(2_000, seed=7))


def risks(batch: sl.RecordBatch[str, Payment]) -> Floats:
    """The risk of each payment, from 0 to 1."""
    return MODEL.probabilities(batch.to_numpy(*FEATURES))


app = sl.App("scoring")

payments = app.stream("payments", key=str, value=Payment)
payments.map_batches(risks, max_records=5_000, name="risks-of-payments").to("risks")
