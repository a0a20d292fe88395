"""The Hugging Face Trainer with a small BERT from its config."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

import oracle
import singleshot as ss

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from singleshot.integrations.huggingface import VWCITrainer, calibration_metrics  # noqa: E402


class Rows(Dataset[dict[str, Tensor]]):
    def __init__(self, rows: int = 16) -> None:
        generator = torch.Generator().manual_seed(0)
        self.ids = torch.randint(1, 30, (rows, 6), generator=generator)
        self.labels = self.ids[:, 0] % 3

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input_ids": self.ids[index], "labels": self.labels[index]}


def bert(dropout: float = 0.1, kind: str = "BertForSequenceClassification", labels: int = 3, **changes: Any) -> Any:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=8,
        num_labels=labels,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        **changes,
    )
    return getattr(transformers, kind)(config)


def trainer_of(
    model: Any, folder: Path, *, kind: Any = VWCITrainer, data: Any = Rows, arguments: dict[str, Any] | None = None
) -> Any:
    given = {"max_steps": 2, "report_to": "none", "use_cpu": True, "disable_tqdm": True, **(arguments or {})}
    options = transformers.TrainingArguments(folder, **given)
    return kind(model, options, train_dataset=data(), eval_dataset=data(8), compute_metrics=calibration_metrics)


def test_several_labels_per_example_have_a_logit_each(tmp_path: Path) -> None:
    model = bert(problem_type="multi_label_classification")
    labels = torch.eye(3)[Rows().labels]  # one label in each row, as a single-label batch would have
    trainer = trainer_of(model, tmp_path)
    torch.manual_seed(3)
    loss = trainer.compute_loss(model.train(), {"input_ids": Rows().ids, "labels": labels})
    torch.manual_seed(3)
    passes = ss.sample(model, input_ids=Rows().ids, samples=5)
    each = [ss.vwci_loss(passes[..., label : label + 1], labels[:, label].long()) for label in range(3)]
    torch.testing.assert_close(loss, torch.stack(each).mean())


def test_the_loss_in_training_and_in_evaluation(tmp_path: Path) -> None:
    model = bert()
    trainer = trainer_of(model, tmp_path)
    batch = {"input_ids": Rows().ids, "labels": Rows().labels}
    torch.manual_seed(3)
    loss = trainer.compute_loss(model.train(), dict(batch))
    torch.manual_seed(3)
    passes = ss.sample(model, input_ids=batch["input_ids"], samples=5)
    assert torch.equal(loss, ss.vwci_loss(passes, batch["labels"]))
    loss, outputs = trainer.compute_loss(model.eval(), dict(batch), return_outputs=True)
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(outputs.logits, batch["labels"]))
    with pytest.raises(ValueError, match="the batch must have labels, got input_ids"):
        trainer.compute_loss(model.train(), {"input_ids": batch["input_ids"]})


def test_training_and_evaluation_run(tmp_path: Path) -> None:
    model = bert()
    before = model.classifier.weight.clone()
    trainer = trainer_of(model, tmp_path)
    trainer.train()
    assert not torch.equal(before, model.classifier.weight)
    metrics = trainer.evaluate()
    found = trainer.predict(Rows(8))
    expected = ss.evaluate(found.predictions, found.label_ids, replicates=0).result.metrics()
    assert {name: metrics[f"eval_{name}"] for name in expected} == pytest.approx(expected)


def test_accumulated_gradients_are_those_of_one_batch(tmp_path: Path) -> None:
    """With hardly any dropout the passes agree, so VWCI is the cross-entropy: both trainers take the same step."""
    weights = []
    for size, kind in ((16, VWCITrainer), (4, VWCITrainer), (16, transformers.Trainer)):
        model = bert(dropout=1e-7)
        arguments = {
            "max_steps": 1,
            "per_device_train_batch_size": size,
            "gradient_accumulation_steps": 16 // size,
            "learning_rate": 0.1,
            "optim": "sgd",
            "lr_scheduler_type": "constant",
            "max_grad_norm": 0.0,
        }
        trainer_of(model, tmp_path, kind=kind, arguments=arguments).train()
        weights.append(model.classifier.weight.detach())
    torch.testing.assert_close(weights[0], weights[2])
    torch.testing.assert_close(weights[1], weights[2])


def test_options_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="samples must be a whole number of at least 2"):
        VWCITrainer(bert(), samples=1)
    with pytest.raises(ValueError, match="measure='bold' is unknown"):
        VWCITrainer(bert(), measure="bold")


def test_a_second_loss_is_refused(tmp_path: Path) -> None:
    smoothed = transformers.TrainingArguments(str(tmp_path), report_to=[], use_cpu=True, label_smoothing_factor=0.1)
    with pytest.raises(ValueError, match="leave out label_smoothing_factor and compute_loss_func"):
        VWCITrainer(bert(), args=smoothed)


class Tokens(Rows):
    """A label per token, -100 for padding, of L = 6 tokens and the last example without any."""

    def __init__(self, rows: int = 16) -> None:
        super().__init__(rows)
        self.labels = self.ids % 3
        self.labels[torch.arange(6) >= 1 + torch.arange(rows).unsqueeze(1) % 6] = -100
        self.labels[-1] = -100


@pytest.mark.parametrize("classes", [3, 6])  # 6 is the number of tokens
def test_token_classification_equals_a_plain_computation(classes: int, tmp_path: Path) -> None:
    model = bert(0.3, "BertForTokenClassification", labels=classes).double()
    tokens = Tokens()
    trainer = trainer_of(model, tmp_path)
    torch.manual_seed(3)
    loss = trainer.compute_loss(model.train(), {"input_ids": tokens.ids, "labels": tokens.labels})
    torch.manual_seed(3)
    passes = ss.sample(model, input_ids=tokens.ids, samples=5).detach().numpy()
    counted = tokens.labels.numpy() != -100
    rows, labels = passes[:, counted], tokens.labels.numpy()[counted]
    alpha = oracle.alpha(rows, "bhattacharyya")
    expected = (1 - alpha) * oracle.ground_truth(rows, labels) + alpha * oracle.uniform(rows)
    assert float(loss.detach()) == pytest.approx(expected.mean(), abs=1e-10)
    metrics = calibration_metrics(SimpleNamespace(predictions=passes[0], label_ids=tokens.labels.numpy()))
    plain = oracle.calibration(oracle.softmax(rows[0]), labels, 20)
    assert {name: metrics[name] for name in ("accuracy", "ece", "nll")} == pytest.approx(
        {name: plain[name] for name in ("accuracy", "ece", "nll")}, abs=1e-10
    )


def test_a_token_classifier_is_trained_and_evaluated(tmp_path: Path) -> None:
    model = bert(kind="BertForTokenClassification")
    arguments = {"max_steps": 60, "learning_rate": 1e-2}
    trainer = trainer_of(model, tmp_path, data=Tokens, arguments=arguments)
    trainer.train()
    metrics = trainer.evaluate()
    assert metrics["eval_accuracy"] > 0.9  # the label of a token is its number modulo 3
    assert metrics["eval_nll"] == pytest.approx(metrics["eval_loss"], rel=0.05)


def test_a_model_that_predicts_the_next_token_is_refused(tmp_path: Path) -> None:
    """Its labels are the input: its own loss shifts them by one."""
    model = bert(kind="BertLMHeadModel", is_decoder=True)
    trainer = trainer_of(model, tmp_path)
    with pytest.raises(ValueError, match=r"BertLMHeadModel has its own loss of a sequence.*ForTokenClassification"):
        trainer.compute_loss(model.train(), {"input_ids": Rows().ids, "labels": Rows().ids})
