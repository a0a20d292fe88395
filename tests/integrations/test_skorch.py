"""The skorch net: its losses, its probabilities, and its options in a search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from torch import Tensor, nn

import singleshot as ss

pytest.importorskip("skorch")

from singleshot.integrations.skorch import VWCIClassifier


class Net(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: Tensor, *, scale: Tensor) -> Tensor:
        return self.net(x) * scale  # type: ignore[no-any-return]


def iris() -> tuple[np.ndarray, np.ndarray]:
    features, labels = load_iris(return_X_y=True)
    return features.astype(np.float32), labels.astype(np.int64)


def net(module: type[nn.Module] = Net, **options: Any) -> VWCIClassifier:
    torch.manual_seed(0)
    given: dict[str, Any] = {"max_epochs": 20, "lr": 0.02, "optimizer": torch.optim.Adam, "verbose": 0, **options}
    return VWCIClassifier(module, **given)


def test_training_predictions_and_the_validation_loss() -> None:
    features, labels = iris()
    model = net(samples=4, criterion__measure="hellinger").fit(features, labels)
    assert model.criterion_.measure == "hellinger"
    assert model.score(features, labels) > 0.9
    with torch.no_grad():
        logits = model.module_.eval()(torch.from_numpy(features))
    np.testing.assert_allclose(model.predict_proba(features), logits.softmax(1), atol=1e-6)
    torch.testing.assert_close(
        model.get_loss(logits, labels), torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels))
    )
    assert ss.evaluate(model.predict_proba(features), labels, kind="probs", replicates=0).metrics()["accuracy"] > 0.9


def test_the_training_loss_is_that_of_the_passes() -> None:
    features, labels = iris()
    model = net().initialize()
    x, y = torch.from_numpy(features), torch.from_numpy(labels)
    model.module_.train()
    torch.manual_seed(1)
    step = model.train_step_single((x, y))
    torch.manual_seed(1)
    passes = ss.sample(model.module_, x, samples=5)
    assert torch.equal(step["y_pred"], passes)
    assert torch.equal(step["loss"], ss.vwci_loss(passes, y))


def test_inputs_by_name_and_a_search() -> None:
    features, labels = iris()
    named = {"x": features, "scale": np.ones((150, 1), np.float32)}
    assert net(Named, max_epochs=3).fit(named, labels).predict_proba(named).shape == (150, 3)
    grid = {"module__width": [4, 8], "samples": [2, 3]}
    search = GridSearchCV(net(max_epochs=3, train_split=None), grid, cv=2, error_score="raise").fit(features, labels)
    assert set(search.best_params_) == {"module__width", "samples"}
