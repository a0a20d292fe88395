"""Every loss with dense logits, tokens, binary logits, several labels per example, soft labels; VWCI in evaluation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn

import oracle
import singleshot as ss

NAMES = ss.list_losses()
every_loss = pytest.mark.parametrize("name", NAMES)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 2


def classes(high: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))


@every_loss
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(2, 5), st.lists(st.integers(1, 3), max_size=2), st.booleans())
def test_dense_logits_equal_their_flattened_form(
    name: str, passes: int, examples: int, count: int, positions: list[int], ignore: bool
) -> None:
    passes = max(passes, 2 if name == "vwci" else 1)
    logits = random(passes, examples, count, *positions)
    labels = classes(count, examples, *positions)
    rows, flat = logits.movedim(2, -1).reshape(passes, -1, count), labels.flatten().clone()
    if ignore and len(flat) > 1:
        labels.view(-1)[0] = flat[0] = 255
    for reduction in ("none", "sum", "mean"):
        loss = ss.create_loss(name, reduction=reduction, ignore_index=255)
        dense, expected = loss(logits, labels), loss(rows, flat)
        assert dense.shape == (labels.shape if reduction == "none" else ())
        torch.testing.assert_close(dense.flatten(), expected.flatten(), rtol=0, atol=1e-12)
        if passes == 1:
            torch.testing.assert_close(loss(logits[0], labels), dense, rtol=0, atol=1e-12)


def test_dense_cross_entropy_equals_torch() -> None:
    logits, labels = random(2, 3, 4, 5), classes(3, 2, 4, 5)
    labels[0, 0] = -100
    weight = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    for reduction in ("none", "sum", "mean"):
        ours = ss.label_smoothing_loss(logits, labels, label_smoothing=0.1, weight=weight, reduction=reduction)
        reference = F.cross_entropy(logits, labels, weight=weight, label_smoothing=0.1, reduction=reduction)
        torch.testing.assert_close(ours, reference)


def test_tokens_with_classes_in_the_last_dimension_are_an_error_that_says_what_to_do() -> None:
    tokens, labels = random(5, 2, 7, 3), classes(3, 2, 7)
    with pytest.raises(ValueError, match=r"shape \(2, 3\).*got \(2, 7\).*dimension 2.*logits\.movedim\(-1, 2\)"):
        ss.vwci_loss(tokens, labels)
    with pytest.raises(ValueError, match=r"logits\.movedim\(-1, 1\)"):
        ss.cross_entropy_loss(tokens[0], labels)
    found = ss.vwci_loss(tokens.movedim(-1, 2), labels)
    torch.testing.assert_close(found, ss.vwci_loss(tokens.flatten(1, 2), labels.flatten()))
    with pytest.raises(ValueError, match=r"for labels \(B,\).*got \(5, 2, 7, 3\) for labels \(2,\)"):
        ss.cross_entropy_loss(tokens, labels[:, 0])


@every_loss
def test_one_logit_of_a_binary_classifier_equals_two(name: str) -> None:
    one, labels = random(3, 6, 1), classes(2, 6)
    two = torch.cat([torch.zeros_like(one), one], -1)
    loss = ss.create_loss(name)
    expected = loss(two, labels)
    assert float(expected) > 0
    for given_labels in (labels, labels.bool()):
        torch.testing.assert_close(loss(one, given_labels), expected)
    weight = torch.tensor([1.0, 3.0], dtype=torch.float64)
    weighted = ss.create_loss(name, weight=weight)
    torch.testing.assert_close(weighted(one, labels), weighted(two, labels))


def test_binary_cross_entropy_equals_torch_for_hard_soft_and_several_labels() -> None:
    logit, labels = random(6, 1), classes(2, 6, 1)
    reference = F.binary_cross_entropy_with_logits(logit, labels.double())
    torch.testing.assert_close(ss.cross_entropy_loss(logit, labels[:, 0]), reference)
    torch.testing.assert_close(ss.cross_entropy_loss(logit, labels.double()), reference)  # as torch takes them
    soft = torch.rand(6, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(ss.cross_entropy_loss(logit, soft), F.binary_cross_entropy_with_logits(logit, soft))
    several, present = random(6, 4), classes(2, 6, 4)  # four labels per example
    torch.testing.assert_close(
        ss.cross_entropy_loss(several.unsqueeze(1), present),
        F.binary_cross_entropy_with_logits(several, present.double()),
    )
    passes = random(5, 6, 4)
    each = [ss.vwci_loss(passes[:, :, [label]], present[:, label], reduction="none") for label in range(4)]
    found = ss.vwci_loss(passes.unsqueeze(2), present, reduction="none")
    torch.testing.assert_close(found, torch.stack(each, 1))


@every_loss
def test_one_hot_soft_labels_equal_class_indices(name: str) -> None:
    logits, labels = random(3, 6, 4), classes(4, 6)
    onehot = F.one_hot(labels, 4).double()
    loss = ss.create_loss(name)
    torch.testing.assert_close(loss(logits, onehot), loss(logits, labels))
    torch.testing.assert_close(loss(logits.float(), onehot.float()), loss(logits.float(), labels))
    dense, indices = logits.unsqueeze(-1).expand(3, 6, 4, 2), labels.unsqueeze(-1).expand(6, 2)
    torch.testing.assert_close(loss(dense, onehot.unsqueeze(-1).expand(6, 4, 2)), loss(dense, indices))


@pytest.mark.parametrize("name", sorted({*NAMES} - {"mmce", "mdca", "dca", "soft_ece"}))
def test_a_mixup_of_labels_is_a_mixup_of_losses(name: str) -> None:
    """All but the Brier score are linear in the label."""
    logits, a, b = random(3, 6, 4), classes(4, 6), classes(4, 6, seed=1)
    mixed = 0.7 * F.one_hot(a, 4).double() + 0.3 * F.one_hot(b, 4).double()
    loss = ss.create_loss(name, reduction="none")
    expected = 0.7 * loss(logits, a) + 0.3 * loss(logits, b)
    if name == "brier":
        expected = torch.from_numpy(oracle.brier(logits.numpy(), mixed.numpy()))
    torch.testing.assert_close(loss(logits, mixed), expected)


def test_soft_labels_of_batch_losses_have_an_expected_accuracy() -> None:
    logits = random(1, 5, 3)
    soft = torch.rand(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    soft = soft / soft.sum(1, keepdim=True)
    probs = oracle.softmax(logits[0].numpy())
    accuracy = soft.numpy()[np.arange(5), probs.argmax(1)]
    plain = ss.cross_entropy_loss(logits, soft)
    gap = abs(float((accuracy - probs.max(1)).mean()))
    torch.testing.assert_close(ss.dca_loss(logits, soft), plain + gap)
    difference = float(np.abs(probs.mean(0) - soft.numpy().mean(0)).mean())
    torch.testing.assert_close(ss.mdca_loss(logits, soft), plain + difference)


def test_soft_labels_and_weights_equal_torch() -> None:
    """The weights multiply the cross-entropy of the classes, and not the calibration error of a batch."""
    logits = random(6, 4)
    soft = random(6, 4, seed=1).softmax(1)
    weight = torch.tensor([0.5, 1.0, 2.0, 4.0], dtype=torch.float64)
    for reduction in ("none", "sum", "mean"):
        for loss in (ss.mmce_loss, ss.mdca_loss, ss.dca_loss, ss.soft_ece_loss):
            error = loss(logits, soft, reduction=reduction) - F.cross_entropy(logits, soft, reduction=reduction)
            reference = F.cross_entropy(logits, soft, weight=weight, reduction=reduction)
            torch.testing.assert_close(loss(logits, soft, weight=weight, reduction=reduction), reference + error)
        for smoothing in (0.0, 0.2):
            torch.testing.assert_close(
                ss.label_smoothing_loss(logits, soft, label_smoothing=smoothing, weight=weight, reduction=reduction),
                F.cross_entropy(logits, soft, weight=weight, label_smoothing=smoothing, reduction=reduction),
            )


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (
            torch.tensor([1, 3, 2]),
            ValueError,
            r"1 of 3 do not, .* = 3\. They lie in 1 … 3: if they are counted",
        ),
        (torch.tensor([0, 3, 2]), ValueError, r"labels\[1\] = 3$"),
        (torch.tensor([0.0, 1.0, 2.0]), TypeError, "got torch.float32.*convert class indices to integers"),
        (torch.eye(3).long(), ValueError, r"got .*\(3, 3\); for one-hot labels, pass labels\.argmax\(1\)"),
    ],
)
def test_labels_of_another_kind_are_an_error_that_says_what_to_do(
    labels: Tensor, error: type[Exception], message: str
) -> None:
    logits = random(3, 3)
    with pytest.raises(error, match=message):
        ss.cross_entropy_loss(logits, labels)
    with pytest.raises(error, match=message):
        ss.vwci_loss(random(4, 3, 3), labels)
    for use in (ss.evaluate, ss.TemperatureScaling.fit):
        with pytest.raises(error, match=message):
            use(logits, labels)
        with pytest.raises(TypeError if use is ss.evaluate else ValueError, match=r"pass labels\.argmax\(1\)"):
            use(logits, torch.eye(3))


@every_loss
def test_invalid_soft_labels_are_named(name: str) -> None:
    loss, logits = ss.create_loss(name), random(3, 2, 4)
    with pytest.raises(ValueError, match=r"soft labels must lie in \[0, 1\] and sum to 1.*1 of 2 rows.*sum 2"):
        loss(logits, torch.tensor([[1.0, 0, 0, 0], [1.0, 1.0, 0, 0]]))
    with pytest.raises(ValueError, match=r"soft labels need the shape of one pass, \(2, 4\)"):
        loss(logits, torch.ones(2, 3) / 3)
    with pytest.raises(TypeError, match=r"integer class indices, got torch.float32 of shape \(2,\)"):
        loss(logits, torch.zeros(2))


def test_vwci_in_evaluation_mode_takes_one_pass() -> None:
    loss, logits, labels = ss.VWCILoss(weight=torch.tensor([1.0, 2.0, 3.0]).double()), random(5, 4, 3), classes(3, 4)
    with pytest.raises(ValueError, match=r"shape \(T, B, C\), got \(4, 3\).*singleshot\.sample.*evaluation mode"):
        loss(logits[0].clone().requires_grad_(), labels)
    in_training = loss(logits, labels)
    loss.eval()
    torch.testing.assert_close(loss(logits[0], labels), F.cross_entropy(logits[0], labels, weight=loss.weight))
    assert torch.equal(loss(logits, labels), in_training)
    torch.testing.assert_close(
        ss.VWCILoss(reduction="none").eval()(random(2, 3, 4, 5), classes(3, 2, 4, 5)),
        F.cross_entropy(random(2, 3, 4, 5), classes(3, 2, 4, 5), reduction="none"),
    )


def test_a_validation_loop_runs_unchanged() -> None:
    """The network is switched by train() and eval() as usual, and nobody switches the loss."""
    model = ss.Sampled(nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 3)), samples=4)
    loss, inputs, labels = ss.VWCILoss(), torch.randn(6, 8), classes(3, 6)
    loss(model.train()(inputs), labels).backward()
    with torch.no_grad():
        logits = model.eval()(inputs)
        torch.testing.assert_close(loss(logits, labels), F.cross_entropy(logits, labels))


@pytest.mark.parametrize(("last", "inputs", "shape"), [
    (nn.Conv2d(4, 3, 1), (2, 4, 6, 5), (5, 2, 3, 6, 5)),  # dense
    (nn.Linear(4, 3), (2, 7, 4), (5, 2, 7, 3)),  # tokens, in the layout of the model
])  # fmt: skip
def test_samples_have_the_layout_of_the_model(last: nn.Module, inputs: tuple[int, ...], shape: tuple[int, ...]) -> None:
    model = nn.Sequential(nn.Dropout(0.5), last)
    for memory in ("normal", "low"):
        logits = ss.sample(model, torch.randn(inputs), samples=5, gradient_passes=2, memory=memory)
        assert logits.shape == shape
        logits = logits if shape[-1] == 5 else logits.movedim(-1, 2)
        labels = classes(3, *logits.shape[1:2], *logits.shape[3:])
        labels[0] = -100
        model.zero_grad()
        ss.vwci_loss(logits, labels).backward()  # type: ignore[no-untyped-call]
        assert all(bool(parameter.grad is not None and parameter.grad.any()) for parameter in model.parameters())


def test_one_logit_is_refused_where_it_would_be_a_certain_class() -> None:
    for function in (ss.predictive_mean, ss.normalized_variance, ss.predictive_entropy):
        with pytest.raises(ValueError, match=r"two classes, got shape \(5, 3, 1\).*torch\.cat"):
            function(torch.randn(5, 3, 1))


@every_loss
def test_a_column_of_labels_is_one_label_per_example(name: str) -> None:
    logits, labels = random(5, 6, 3), classes(3, 6)
    loss = ss.create_loss(name, reduction="none")
    assert torch.equal(loss(logits, labels.unsqueeze(1)), loss(logits, labels))
    assert torch.equal(loss(random(2, 4, 1), classes(2, 4).unsqueeze(1)), loss(random(2, 4, 1), classes(2, 4)))
    if name != "vwci":
        assert torch.equal(loss(logits[0], labels.unsqueeze(1)), loss(logits[0], labels))
        assert loss(logits[..., :1], classes(6, 5, 1)).shape == (5, 1)  # one position per example


def test_the_message_for_one_hot_labels_has_the_shape_of_class_indices() -> None:
    with pytest.raises(ValueError, match=r"labels must have shape \(6,\).*got \(6, 3\); .*pass labels.argmax\(1\)"):
        ss.vwci_loss(random(5, 6, 3), F.one_hot(classes(3, 6), 3))
