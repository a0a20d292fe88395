"""A scikit-learn classifier for tables and features: a small network trained with the VWCI loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from singleshot.common.checks import check_range, check_size
from singleshot.common.loss_names import LossName
from singleshot.integrations.training_loop import Training, adamw
from singleshot.losses import create_loss
from singleshot.training.inference import evaluation_mode

MakeNetwork = Callable[[int, int], nn.Module]
ROWS = 2**14  # examples per forward pass of a prediction


class SingleShotClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A multilayer perceptron whose ``predict_proba`` is calibrated, from one forward pass.

    It follows scikit-learn's conventions: labels of any kind, ``classes_``, clones, pipelines and searches. Inputs
    should have similar scales: put a ``StandardScaler`` before it.

    Args:
        hidden: sizes of the hidden layers, each followed by ReLU and dropout.
        dropout: rate of the dropout.
        loss: a name of `singleshot.list_losses`; ``cross_entropy`` is the baseline. ``adafocal`` is refused: it follows
            held-out examples.
        loss_options: options of `singleshot.create_loss`, such as ``{"strength": 2.0}``.
        measure: the disagreement measure of VWCI, see `singleshot.vwci_loss`.
        samples: stochastic passes per step of VWCI.
        epochs: passes over the data.
        batch_size: examples per step.
        learning_rate: of AdamW; it falls linearly to 0.
        weight_decay: of AdamW.
        network: a function of the numbers of features and classes that returns an ``nn.Module`` with noise layers, in
            place of the perceptron.
        random_state: a seed, for the same network every time.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SingleShotClassifier(epochs=5, random_state=0).fit(X, y)
    >>> model.predict_proba(X[:2]).shape
    (2, 3)
    """

    def __init__(
        self,
        *,
        hidden: Sequence[int] = (64, 64),
        dropout: float = 0.2,
        loss: LossName = "vwci",
        loss_options: Mapping[str, Any] | None = None,
        measure: str = "bhattacharyya",
        samples: int = 5,
        epochs: int = 50,
        batch_size: int = 64,
        learning_rate: float = 3e-3,
        weight_decay: float = 1e-4,
        network: MakeNetwork | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.hidden = hidden
        self.dropout = dropout
        self.loss = loss
        self.loss_options = loss_options
        self.measure = measure
        self.samples = samples
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.network = network
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> SingleShotClassifier:  # noqa: N803
        """Train the network on features (N, F) and labels (N,)."""
        features, given = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(given)
        self.classes_, labels = np.unique(given, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"the labels have one class, {self.classes_[0]}; a classifier needs at least two")
        batch_size = check_size("batch_size", self.batch_size, least=1)
        make_optimizer = adamw(self.learning_rate, self.weight_decay)
        if self.loss == "adafocal":
            raise ValueError(
                "loss='adafocal' follows held-out examples, which fit() does not have; choose another loss, or use "
                "singleshot.AdaptiveGamma in a loop of your own"
            )
        measure = {"measure": self.measure} if self.loss == "vwci" else {}
        loss = create_loss(self.loss, **{**measure, **(self.loss_options or {})})
        dataset = TensorDataset(torch.from_numpy(features), torch.from_numpy(labels.astype(np.int64)))
        seed = int(check_random_state(self.random_state).randint(2**31))
        # On the CPU: such networks are small. The seed must not change the random numbers of the caller.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            make = self.network or self._perceptron
            network = make(features.shape[1], len(self.classes_))
            loader = DataLoader(dataset, batch_size, shuffle=True)
            training = Training(
                network, loader, epochs=self.epochs, make_optimizer=make_optimizer, loss=loss, samples=self.samples
            )
            with evaluation_mode(network):
                found, wanted = tuple(network(dataset[:2][0]).shape), (2, len(self.classes_))
            if found != wanted:
                raise ValueError(f"network must return one logit per class, {wanted} for two rows, got {found}")
            training.run()
        self.network_ = network.eval()
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the probability of each class of ``classes_`` (N, C), from one forward pass."""
        return self._logits(X).double().softmax(1).numpy()

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the most likely class of each row (N,)."""
        predicted = self._logits(X).argmax(1).numpy()
        found: NDArray[Any] = self.classes_[predicted]
        return found

    def _logits(self, X: Any) -> torch.Tensor:  # noqa: N803
        check_is_fitted(self)
        features = torch.from_numpy(validate_data(self, X, dtype=np.float32, reset=False))
        with evaluation_mode(self.network_):
            return torch.cat([self.network_(rows) for rows in torch.split(features, ROWS)])

    def _perceptron(self, features: int, classes: int) -> nn.Module:
        rate = check_range("dropout", self.dropout, "[0, 1)")
        if not isinstance(self.hidden, Iterable):
            raise TypeError(f"hidden must be a sequence of sizes, such as (64, 64), got {self.hidden!r}")
        sizes = [features, *(check_size("a size in hidden", size, least=1) for size in self.hidden)]
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(rate)]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], classes))
