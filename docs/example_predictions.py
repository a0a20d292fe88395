"""Write predictions of an overconfident classifier, for the guide on predictions.

    python docs/example_predictions.py          writes val.csv and test.csv into the current folder

A naive Bayes classifier on scikit-learn's digits: it treats the pixels as independent, counts the same evidence many
times, and is very overconfident.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def main() -> None:
    """Train on a third of the digits and predict the rest."""
    images, labels = load_digits(return_X_y=True)
    train, rest, train_labels, rest_labels = train_test_split(images, labels, train_size=1 / 3, random_state=0)
    model = GaussianNB(var_smoothing=1e-2).fit(train, train_labels)
    logits = model.predict_joint_log_proba(rest)
    for name, part in (("val.csv", np.arange(len(rest)) % 2 == 0), ("test.csv", np.arange(len(rest)) % 2 == 1)):
        with Path(name).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*(f"logit_{digit}" for digit in NAMES), "label"])
            for scores, label in zip(logits[part], rest_labels[part], strict=True):
                writer.writerow([*(f"{score:.6f}" for score in scores), NAMES[label]])


if __name__ == "__main__":
    main()
