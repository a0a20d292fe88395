"""Attention models, several inputs and inputs by name, as people have them, in both formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import singleshot as ss
from singleshot.export import export_model

SUFFIX = {"onnx": ".onnx", "torch-export": ".pt2"}


class ViT(nn.Module):
    """A vision transformer: patches, a class token, pre-norm blocks with torch's attention function."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 16, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.position = nn.Parameter(torch.randn(1, 5, 16))
        self.blocks = nn.ModuleList(Block(16, 2) for _ in range(2))
        self.head = nn.Linear(16, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])  # type: ignore[no-any-return]


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, width))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        rate = 0.1 if self.training else 0.0
        x = x + self.joined(
            F.scaled_dot_product_attention(query, key, value, dropout_p=rate).transpose(1, 2).flatten(2)
        )
        return x + self.mlp(self.norm2(x))  # type: ignore[no-any-return]


class Encoder(nn.Module):
    """Tokens and a mask of the padding, through torch's own transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 4)

    def forward(self, tokens: Tensor, padding: Tensor) -> Tensor:
        return self.head(self.encoder(self.embed(tokens), src_key_padding_mask=padding)[:, 0])  # type: ignore[no-any-return]


def distilbert() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    config = transformers.DistilBertConfig(
        vocab_size=50, dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=12, num_labels=3
    )
    model: nn.Module = transformers.DistilBertForSequenceClassification(config)
    return model


TOKENS = torch.tensor([[1, 8, 2, 0], [7, 1, 1, 4], [3, 0, 0, 0]])
CASES: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "vit": (ViT, torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))),
    "encoder": (Encoder, (TOKENS, TOKENS == 0)),
    "distilbert": (distilbert, {"input_ids": TOKENS, "attention_mask": (TOKENS != 0).long()}),
}


@pytest.mark.parametrize("kind", SUFFIX)
@pytest.mark.parametrize("name", CASES)
def test_attention_models_are_exported(name: str, kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    build, example = CASES[name]
    model = build().train()
    path = tmp_path / f"a{SUFFIX[kind]}"
    done = export_model(model, path, example=example, format=kind, temperature=ss.TemperatureScaling(1.5))
    assert done.facts["temperature"] == 1.5
    assert done.facts["temperature_folded"]
    assert model.training
    model.eval()
    by_name = example if isinstance(example, dict) else {}
    by_position = () if by_name else (example,) if isinstance(example, Tensor) else example
    for rows in (1, 3):  # the parity check of the export itself takes one and seven rows
        args = tuple(tensor[:rows] for tensor in by_position)
        kwargs: dict[str, Tensor] = {key: tensor[:rows] for key, tensor in by_name.items()}
        output = model(*args, **kwargs)  # with gradients, the transformer of torch does not take its fused path
        expected = getattr(output, "logits", output).detach() / 1.5
        with torch.no_grad():
            if kind == "onnx":
                feed = zip((one["name"] for one in done.facts["inputs"]), (*args, *kwargs.values()), strict=True)
                session = onnxruntime.InferenceSession(path)
                logits = torch.from_numpy(session.run(["logits"], {key: one.numpy() for key, one in feed})[0])
            else:
                logits = torch.export.load(path).module()(*args, **kwargs)[0]
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


def test_attention_with_dropout_in_evaluation_mode_is_refused(tmp_path: Path) -> None:
    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x, dropout_p=0.1).mean(1)

    with pytest.raises(ValueError, match=r"draws random numbers in evaluation mode \(aten\.scaled_dot_product"):
        export_model(Noisy(), tmp_path / "a.onnx", example=torch.randn(2, 3, 4))


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.EmbeddingBag(30, 3), nn.Linear(3, 2)

    def forward(self, tokens: Tensor, features: Tensor) -> Tensor:
        return self.head(self.embed(tokens) + features)  # type: ignore[no-any-return]


def test_names_of_the_inputs(tmp_path: Path) -> None:
    example = (TOKENS, torch.randn(3, 3))
    done = export_model(TwoInputs(), tmp_path / "a.onnx", example=example, input_names=["ids", "age"])
    session = onnxruntime.InferenceSession(done.path)
    assert [(one.name, one.shape, one.type) for one in session.get_inputs()] == [
        ("ids", ["batch", 4], "tensor(int64)"),
        ("age", ["batch", 3], "tensor(float)"),
    ]
    assert [one["name"] for one in ss.read_facts(done.path)["inputs"]] == ["ids", "age"]
    done = export_model(TwoInputs(), tmp_path / "a.pt2", example=example, format="torch-export")
    assert [one["name"] for one in done.facts["inputs"]] == ["input_0", "input_1"]


def test_a_file_is_kept_unless_it_may_be_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.pt2"
    path.write_text("previous content")
    example = torch.randn(2, 3)
    with pytest.raises(FileExistsError, match=r"a\.pt2 exists already; choose another name or set overwrite=True"):
        export_model(nn.Linear(3, 2), path, example=example, format="torch-export", overwrite=False)
    assert path.read_text() == "previous content"
    export_model(nn.Linear(3, 2), path, example=example, format="torch-export")
    assert ss.read_facts(path)["classes"] == 2
