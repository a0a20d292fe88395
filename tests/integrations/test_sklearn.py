"""The scikit-learn classifier: scikit-learn's own checks, labels of any kind, pipelines and searches."""

from __future__ import annotations

import pickle
from typing import Any, get_args

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import singleshot as ss
from singleshot.common.loss_names import LossName


@parametrize_with_checks([ss.SingleShotClassifier(epochs=8)])  # type: ignore[untyped-decorator]
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    """No check is expected to fail. The one of the array API is skipped unless SCIPY_ARRAY_API is set."""
    check(estimator)


@pytest.mark.parametrize("labels", [["setosa", "versicolor", "virginica"], [7, -1, 3], [0.0, 1.0, 2.0]])
def test_any_kind_of_label(labels: list[Any]) -> None:
    features, targets = load_iris(return_X_y=True)
    named = np.array(labels)[targets]
    model = ss.SingleShotClassifier(epochs=30, random_state=0).fit(features, named)
    assert model.classes_.tolist() == sorted(labels)
    assert model.score(features, named) > 0.9
    probs = model.predict_proba(features)
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-12)
    assert (model.classes_[probs.argmax(1)] == model.predict(features)).all()


def test_bool_labels_and_a_data_frame() -> None:
    frame, targets = load_breast_cancer(return_X_y=True, as_frame=True)
    assert frame.columns[0] == "mean radius"
    pipeline = make_pipeline(StandardScaler(), ss.SingleShotClassifier(epochs=5, random_state=0))
    pipeline.fit(frame, targets.astype(bool))
    assert pipeline.classes_.tolist() == [False, True]
    assert pipeline.score(frame, targets.astype(bool)) > 0.9


def test_a_search_in_a_pipeline() -> None:
    features, targets = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), ss.SingleShotClassifier(epochs=10, random_state=0))
    grid = {"singleshotclassifier__dropout": [0.1, 0.5], "singleshotclassifier__loss": ["vwci", "cross_entropy"]}
    search = GridSearchCV(pipeline, grid, scoring="neg_log_loss", cv=2, error_score="raise").fit(features, targets)
    assert len(set(search.cv_results_["mean_test_score"])) == 4
    assert search.score(features, targets) > -1.0


def test_every_loss_of_the_registry() -> None:
    features, targets = load_iris(return_X_y=True)
    found = {}
    for loss in get_args(LossName):
        if loss == "adafocal":
            continue
        samples = 5 if loss == "vwci" else 1
        model = ss.SingleShotClassifier(loss=loss, samples=samples, epochs=60, random_state=0).fit(features, targets)
        assert model.score(features, targets) > 0.9, loss
        found[loss] = model.predict_proba(features)[0, 0]
    assert len(set(found.values())) == len(found)


def test_a_search_for_the_options_of_a_loss() -> None:
    features, targets = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), ss.SingleShotClassifier(epochs=10, random_state=0))
    name = "singleshotclassifier__loss"
    grid = [
        {name: ["label_smoothing"], f"{name}_options": [None, {"strength": 0.1}, {"strength": 0.5}]},
        {name: ["margin_smoothing"], f"{name}_options": [{"margin": 0.1}, {"strength": 1.0, "margin": 0.1}]},
    ]
    search = GridSearchCV(pipeline, grid, scoring="neg_log_loss", cv=2, error_score="raise").fit(features, targets)
    first, *others = search.cv_results_["mean_test_score"]
    assert first == others[0]  # 0.1 is the usual strength
    assert len({first, *others}) == 4


def test_the_seed_decides_the_network_and_nothing_else_is_changed() -> None:
    features, targets = load_iris(return_X_y=True)
    model = ss.SingleShotClassifier(epochs=2, random_state=3)
    state = torch.get_rng_state()
    first = model.fit(features, targets).predict_proba(features)
    assert torch.equal(torch.get_rng_state(), state)
    assert (clone(model).fit(features, targets).predict_proba(features) == first).all()
    assert (pickle.loads(pickle.dumps(model)).predict_proba(features) == first).all()
    other = clone(model).set_params(random_state=4).fit(features, targets).predict_proba(features)
    assert (other != first).any()


def small_network(features: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(features), nn.Dropout(0.1), nn.Linear(features, classes))


def test_options_of_a_loss_go_before_the_argument_of_the_classifier() -> None:
    features, targets = load_iris(return_X_y=True)
    same = [
        ss.SingleShotClassifier(epochs=1, random_state=0, **options).fit(features, targets).predict_proba(features)
        for options in (
            {"measure": "total_variation"},
            {"measure": "bhattacharyya", "loss_options": {"measure": "total_variation"}},
        )
    ]
    assert (same[0] == same[1]).all()


def test_an_own_network() -> None:
    features, targets = load_iris(return_X_y=True)
    model = ss.SingleShotClassifier(network=small_network, epochs=20, learning_rate=0.05, batch_size=50, random_state=0)
    assert model.fit(features, targets).score(features, targets) > 0.8
    assert isinstance(model.network_.get_submodule("0"), nn.BatchNorm1d)
    assert not model.network_.training


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, "loss='hinge' is unknown; choose one of cross_entropy, label_smoothing"),
        ({"loss": "adafocal"}, "loss='adafocal' follows held-out examples"),
        ({"loss": "focal", "loss_options": {"strength": -1.0}}, "gamma must lie in"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\)"),
        ({"dropout": 0.0}, "has no noise"),
        ({"hidden": (0,)}, "a size in hidden must be a whole number of at least 1"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"learning_rate": 0.0}, "learning_rate must lie in"),
        ({"measure": "entropy"}, "measure"),
        ({"samples": 1}, "samples must be a whole number of at least 2, got 1"),
        (
            {"network": lambda features, classes: small_network(features, 4)},
            r"one logit per class, \(2, 3\) .* got \(2, 4\)",
        ),
        (
            {"network": lambda features, classes: small_network(features, 1)},
            r"one logit per class, \(2, 3\) .* got \(2, 1\)",
        ),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    features, targets = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        ss.SingleShotClassifier(**options).fit(features, targets)


def test_errors_before_fitting_and_for_one_class() -> None:
    with pytest.raises(TypeError, match=r"hidden must be a sequence of sizes, such as \(64, 64\), got 8"):
        ss.SingleShotClassifier(hidden=8).fit([[1.0], [2.0]], [0, 1])  # type: ignore[arg-type]
    with pytest.raises(NotFittedError):
        ss.SingleShotClassifier().predict([[1.0]])
    with pytest.raises(ValueError, match="the labels have one class, a"):
        ss.SingleShotClassifier().fit([[1.0], [2.0]], ["a", "a"])
