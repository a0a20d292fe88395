"""The steps for Lightning, on a module that records what is logged; with Lightning itself where it is installed."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import singleshot as ss
from singleshot.integrations.lightning import VWCISteps


class Host(nn.Module):
    """What the steps use of a LightningModule."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        super().__init__()
        self.logged: dict[str, float] = {}
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]

    def log(self, name: str, value: Tensor) -> None:
        self.logged[name] = float(value.detach())

    def log_dict(self, values: dict[str, float]) -> None:
        self.logged |= values


class Module(VWCISteps, Host):
    samples = 3
    measure = "hellinger"


X, Y = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3


def test_the_training_loss() -> None:
    module = Module().train()
    torch.manual_seed(1)
    loss = module.training_step((X, Y), 0)
    torch.manual_seed(1)
    assert torch.equal(loss, ss.vwci_loss(ss.sample(module, X, samples=3), Y, measure="hellinger"))
    assert module.logged == {"train_loss": loss.item()}
    torch.manual_seed(1)
    assert torch.equal(module.training_step({"x": X, "labels": Y}, 0), loss)


@pytest.mark.parametrize("stage", ["validation", "test"])
def test_calibration_is_logged(stage: str) -> None:
    module: Any = Module().eval()
    for _ in range(2):  # every epoch has a state of its own
        getattr(module, f"on_{stage}_epoch_start")()
        for rows in (slice(0, 40), slice(40, 60)):
            getattr(module, f"{stage}_step")((X[rows], Y[rows]), 0)
        getattr(module, f"on_{stage}_epoch_end")()
    expected = ss.evaluate(module(X), Y, replicates=0).result.metrics()
    prefix = "val" if stage == "validation" else "test"
    assert module.logged == pytest.approx({f"{prefix}_{name}": value for name, value in expected.items()})


def test_labels_that_the_loss_ignores_are_left_out_of_the_metrics() -> None:
    module = Module().eval()
    labels = Y.clone()
    labels[40:] = -100
    module.on_validation_epoch_start()
    module.validation_step((X, labels), 0)
    module.on_validation_epoch_end()
    assert module.logged["val_nll"] == pytest.approx(ss.evaluate(module(X[:40]), Y[:40]).metrics()["nll"])


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning", "ignore::UserWarning:lightning")  # of Lightning itself
@pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="needs the extra singleshot[lightning]")
def test_with_lightning() -> None:
    import lightning
    from torch.utils.data import DataLoader, TensorDataset

    class Classifier(VWCISteps, lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = Host().layers

        def forward(self, x: Tensor) -> Tensor:
            return self.layers(x)  # type: ignore[no-any-return]

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=0.01)

    module = Classifier()
    loader = DataLoader(TensorDataset(X, Y), 20)
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(module, loader, loader)
    assert "train_loss" in trainer.callback_metrics
    (tested,) = trainer.test(module, loader, verbose=False)
    expected = ss.evaluate(module, loader, replicates=0).result.metrics()
    assert tested == pytest.approx({f"test_{name}": value for name, value in expected.items()}, rel=1e-5)
