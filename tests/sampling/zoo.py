"""Classifiers as other people write them, each with its noise in another place."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from singleshot.models import create_model, list_models


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(12, 16),
            nn.ReLU(),
            nn.Dropout(0.4),
            nn.Linear(16, 16),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(16, 5),
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layers(x.view(x.size(0), -1))
        return logits


class SkipCNN(nn.Module):
    """A skip connection from before the noise to behind it, batch norm on both sides, and a view by batch size."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.drop = nn.Dropout2d(0.3)
        self.branch = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4))
        self.head = nn.Linear(4 * 6 * 6, 5)

    def forward(self, x: Tensor) -> Tensor:
        shared = self.stem(x)
        rows = x.shape[0]
        joined = F.relu(self.branch(self.drop(shared)) + shared)
        logits: Tensor = self.head(joined.view(rows, -1))
        return logits


class PlainSkipCNN(SkipCNN):
    """The same without batch norm behind the noise: its noisy part can run as one batch."""

    def __init__(self) -> None:
        super().__init__()
        self.branch = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1))


class TransformerClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.position = nn.Parameter(torch.randn(1, 10, 8))
        layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, dropout=0.3, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(8, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.position[:, : tokens.size(1)]
        logits: Tensor = self.head(self.encoder(x).mean(1))
        return logits


class AttentionClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, dropout=0.4, batch_first=True)
        self.head = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        attended, _ = self.attention(x, x, x, need_weights=False)
        logits: Tensor = self.head(attended.mean(1))
        return logits


class LSTMClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, num_layers=2, dropout=0.4, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        logits: Tensor = self.head(states[:, -1])
        return logits


class SequenceFirstLSTM(nn.Module):
    """The batch is the second dimension where the noise begins."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, num_layers=2, dropout=0.4)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x.transpose(0, 1))
        logits: Tensor = self.head(states[-1])
        return logits


class FunctionalDropout(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(12, 16)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.dropout(F.relu(self.hidden(x)), 0.4, self.training)
        logits: Tensor = self.head(hidden)
        return logits


class DataDependent(nn.Module):
    """Its path depends on its data: no graph can hold it."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.4)
        self.head = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 1e6:
            x = x / 2
        logits: Tensor = self.head(self.drop(x))
        return logits


class DropPath(nn.Module):
    """One coin per row, as timm writes it."""

    def __init__(self, drop_prob: float = 0.0) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: Tensor) -> Tensor:
        if self.drop_prob == 0.0 or not self.training:
            return x
        kept = 1 - self.drop_prob
        coins = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(kept)
        return x * coins.div_(kept)


class StochasticDepth(nn.Module):
    """A coin per row or one for the batch, as torchvision writes it."""

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p = p
        self.mode = mode

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        size = [x.shape[0] if self.mode == "row" else 1] + [1] * (x.ndim - 1)
        coins = torch.empty(size, dtype=x.dtype, device=x.device).bernoulli_(1 - self.p)
        return x * coins.div_(1 - self.p)


class BatchNormAct(nn.BatchNorm2d):
    """Batch norm and activation in one module with a forward of its own, as timm writes it."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.act = nn.SiLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        x = F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, self.training, 0.1, self.eps)
        activated: Tensor = self.act(x)
        return activated


class InvertedResidual(nn.Module):
    """Squeeze and excitation, shapes read in Python, an assertion, in-place activations: an EfficientNet's block."""

    def __init__(self, channels: int, drop_path: float = 0.0) -> None:
        super().__init__()
        self.expand, self.norm = nn.Conv2d(channels, 2 * channels, 1, bias=False), BatchNormAct(2 * channels)
        self.reduce, self.excite = nn.Conv2d(2 * channels, 4, 1), nn.Conv2d(4, 2 * channels, 1)
        self.project, self.norm2 = nn.Conv2d(2 * channels, channels, 1, bias=False), nn.BatchNorm2d(channels)
        self.drop_path = DropPath(drop_path) if drop_path else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[1] == self.expand.in_channels
        h = self.norm(self.expand(x))
        gate = self.excite(F.relu(self.reduce(h.mean((2, 3), keepdim=True)), inplace=True)).sigmoid()
        h = self.norm2(self.project(h * gate))
        joined: Tensor = self.drop_path(h) + x
        return joined


class EfficientNet(nn.Module):
    def __init__(self, drop_path: float = 0.0) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 4, 3, padding=1), BatchNormAct(4)
        self.blocks = nn.ModuleList([InvertedResidual(4, drop_path) for _ in range(3)])
        self.drop_rate, self.head = 0.3, nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.stem(x))
        for block in self.blocks:
            x = block(x)
        x = F.dropout(x.mean((2, 3)), p=self.drop_rate, training=self.training)
        logits: Tensor = self.head(x)
        return logits


def attention(module: nn.Module, x: Tensor, mask: Tensor, rate: float) -> Tensor:
    weights = torch.softmax(x @ x.transpose(1, 2) + mask[:, None, :], -1)
    return F.dropout(weights, p=rate, training=module.training) @ x


class BertLayer(nn.Module):
    """Attention as a function outside the class, as Hugging Face writes it."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.dense, self.norm, self.dropout, self.rate = nn.Linear(8, 8), nn.LayerNorm(8), nn.Dropout(rate), rate

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm(x + self.dropout(attention(self, x, mask, self.rate)))
        joined: Tensor = self.norm(x + self.dropout(F.gelu(self.dense(x))))
        return joined


class BertOutput(dict[str, Tensor]):
    @property
    def logits(self) -> Tensor:
        return self["logits"]


class Bert(nn.Module):
    """Several inputs by name, an attention mask that is made on the way, an output with logits."""

    position_ids: Tensor

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(20, 8), nn.Embedding(16, 8)
        self.register_buffer("position_ids", torch.arange(16)[None], persistent=False)
        self.layers = nn.ModuleList([BertLayer(rate) for _ in range(2)])
        self.dropout, self.classifier = nn.Dropout(0.3), nn.Linear(8, 5)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> BertOutput:
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        x = self.embed(input_ids) + self.position(self.position_ids[:, : input_ids.shape[1]])
        bias = (1.0 - attention_mask.to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, bias)
        return BertOutput(logits=self.classifier(self.dropout(x[:, 0])), hidden=x)


class Segmenter(nn.Module):
    """Dense logits (B, C, H, W)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.drop, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.Dropout2d(0.4), nn.Conv2d(4, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.drop(self.stem(x)))
        return logits


class ResidualWith(nn.Module):
    """A residual block around somebody's drop layer."""

    def __init__(self, drop: nn.Module) -> None:
        super().__init__()
        self.stem = nn.Linear(12, 8)
        self.branch = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU())
        self.drop = drop
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        logits: Tensor = self.head(x + self.drop(self.branch(x)))
        return logits


FOREIGN: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...] | None]] = {
    "mlp": (MLP, (12,)),
    "skip_cnn": (SkipCNN, (3, 6, 6)),
    "plain_skip_cnn": (PlainSkipCNN, (3, 6, 6)),
    "transformer": (TransformerClassifier, None),  # it takes tokens
    "attention": (AttentionClassifier, (7, 6)),
    "lstm": (LSTMClassifier, (7, 6)),
    "functional": (FunctionalDropout, (12,)),
    "data_dependent": (DataDependent, (12,)),
    "drop_path": (lambda: ResidualWith(DropPath(0.4)), (12,)),
    "row_depth": (lambda: ResidualWith(StochasticDepth(0.4, "row")), (12,)),
    "batch_depth": (lambda: ResidualWith(StochasticDepth(0.4, "batch")), (12,)),
    "sequence_first_lstm": (SequenceFirstLSTM, (7, 6)),
    "efficientnet": (EfficientNet, (3, 6, 6)),
    "efficientnet_drop_path": (lambda: EfficientNet(0.2), (3, 6, 6)),
    "bert_head": (Bert, None),
    "bert": (lambda: Bert(0.2), None),
    "segmenter": (Segmenter, (3, 6, 6)),
}
EVERYTHING = [*FOREIGN, *list_models()]


def build(name: str, rows: int = 4) -> tuple[nn.Module, Tensor]:
    """Return a model in training mode and an input with this many rows."""
    torch.manual_seed(0)
    if name in FOREIGN:
        make, shape = FOREIGN[name]
        model = make()
    else:
        model, shape = create_model(name, num_classes=5, width=0.125), (3, 32, 32)
    x = torch.randint(0, 20, (rows, 10)) if shape is None else torch.randn(rows, *shape)
    return model.train(), x
