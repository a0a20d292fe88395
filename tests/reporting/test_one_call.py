"""evaluate() and report(): the same numbers and the same page as the commands, from what a user has in memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import singleshot as ss
from predictions.files import predictions
from singleshot.cli.main import main
from singleshot.common.progress import tracked
from singleshot.training.loaders import read_batch


def arrays(rows: int = 200, classes: int = 3) -> tuple[Tensor, Tensor]:
    logits, labels = predictions(rows, classes, "logits")
    return torch.from_numpy(logits), torch.from_numpy(labels)


class TwoInputs(nn.Module):
    """A batch norm that is frozen, an input by position and one by name, and logits in a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 3)
        self.norm.eval()

    def forward(self, x: Tensor, scale: Tensor) -> dict[str, Tensor]:
        return {"logits": self.head(self.norm(x)) * scale}


def test_the_numbers_are_those_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logits, labels = arrays()
    evaluation = ss.evaluate(logits, labels, classwise=True, name="mine")
    evaluation.save(tmp_path / "mine.npz")
    main(["evaluate", str(tmp_path / "mine.npz"), "--classwise", "--json"])
    command = json.loads(capsys.readouterr().out)
    evaluation.save(tmp_path / "mine.json")
    saved = json.loads((tmp_path / "mine.json").read_text())
    shared = set(saved) - {"name"}
    assert {name: saved[name] for name in shared} == {name: command[name] for name in shared}
    assert {"intervals", "verdict", "bins", "classwise_ece", "smooth_ece"} <= shared
    assert "consistency" not in command  # one p-value, that of the verdict
    assert 0 < command["verdict"]["p_value"] <= 1
    from_file = ss.evaluate(tmp_path / "mine.npz", classwise=True)
    assert from_file.metrics() == evaluation.metrics()
    assert repr(evaluation).startswith("mine: 200 examples, 3 classes, logits\n")


def test_probabilities_give_the_metrics_of_their_logits(tmp_path: Path) -> None:
    logits, labels = arrays()
    probs = logits.double().softmax(1)
    evaluation = ss.evaluate(probs.numpy(), labels.tolist(), kind="probs", replicates=0)
    expected = ss.evaluate(logits.double(), labels, replicates=0)
    assert evaluation.metrics() == pytest.approx(expected.metrics(), abs=1e-12)
    evaluation.save(tmp_path / "probs.npz")
    assert ss.evaluate(tmp_path / "probs.npz", replicates=0).metrics() == pytest.approx(expected.metrics(), abs=1e-6)


@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("columns", [0, 1])
def test_scores_of_the_positive_class_are_saved_as_two_classes(kind: Any, columns: int, tmp_path: Path) -> None:
    logits, labels = arrays(classes=2)
    one = logits[:, 1:].double() - logits[:, :1].double()
    one = one if kind == "logits" else one.sigmoid()
    evaluation = ss.evaluate(one if columns else one[:, 0], labels, kind=kind, replicates=0)
    expected = ss.evaluate(logits.double(), labels, replicates=0)
    assert evaluation.metrics() == pytest.approx(expected.metrics(), abs=1e-9)
    assert evaluation.positive is not None
    assert evaluation.positive.accuracy == pytest.approx(float(labels.double().mean()))
    assert repr(evaluation).startswith(f"predictions: 200 examples, 2 classes, {kind} of 1\n")
    evaluation.save(tmp_path / "one.npz")
    assert ss.evaluate(tmp_path / "one.npz", replicates=0).metrics() == pytest.approx(expected.metrics(), abs=1e-6)


def test_small_probabilities_of_the_positive_class_are_not_tied() -> None:
    probs = torch.tensor([1e-12, 1e-10, 1e-9], dtype=torch.float32)
    found = ss.evaluate(probs, torch.tensor([0, 0, 1]), kind="probs", replicates=0)
    assert found.examples is not None
    assert len(set(found.examples.confidence.tolist())) == 3


def test_labels_can_be_names() -> None:
    pandas = pytest.importorskip("pandas")
    logits, labels = arrays()
    names = ["cat", "dog", "eel"]
    texts = [names[label] for label in labels.tolist()]
    expected = ss.evaluate(logits, labels, replicates=0).metrics()
    frame = pandas.DataFrame(logits.numpy(), columns=names)
    for found in (
        ss.evaluate(frame, pandas.Series(texts), replicates=0),
        ss.evaluate(logits, texts, class_names=names, replicates=0),
    ):
        assert found.metrics() == expected
        assert found.outcomes.class_names == tuple(names)


def test_options_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,a,b\na,3,1\nb,1,1\n")
    found = ss.evaluate(path, kind="probs", normalize=True, replicates=0)
    assert found.result.mean_confidence == 0.625
    with pytest.raises(ValueError, match="sum to 1"):
        ss.evaluate(path, kind="probs")
    with pytest.raises(TypeError, match="normalize can be given with a file"):
        ss.evaluate(torch.tensor([[1.0, 3.0]]), [0], normalize=True)


def test_a_model_is_evaluated_once_in_evaluation_mode_and_left_as_it_was() -> None:
    torch.manual_seed(0)
    model = TwoInputs().train()
    model.norm.eval()
    x, scale, labels = torch.randn(60, 4), torch.rand(60, 1), torch.randint(0, 3, (60,))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    evaluation = ss.evaluate(model, DataLoader(TensorDataset(x, scale, labels), 16), replicates=0)
    assert model.training
    assert not model.norm.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    expected = model.eval()(x, scale)["logits"]
    torch.testing.assert_close(evaluation.batch["logits"], expected.detach())
    named = [
        {"x": x[:30], "scale": scale[:30], "labels": labels[:30]},
        {"x": x[30:], "scale": scale[30:], "label": labels[30:]},
    ]
    assert ss.evaluate(model, named, replicates=0).metrics() == pytest.approx(evaluation.metrics(), rel=1e-5)
    assert evaluation.name == "TwoInputs"


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ((torch.tensor([[0.5, 0.5]]), torch.tensor([0])), {}, 'say kind="probs"'),
        ((torch.tensor([[0.5, 0.5]]), torch.tensor([0])), {"kind": "scores"}, "choose one of logits, probs"),
        ((torch.tensor([[0.5, 0.7]]), torch.tensor([2])), {}, "labels"),
        (
            (torch.tensor([[0.5, 0.7]]), torch.tensor([0])),
            {"class_names": ["a"]},
            "class_names must name the 2 classes",
        ),
        ((torch.tensor([[0.5, 0.7]]),), {}, "labels must be given"),
        ((torch.tensor([[0.5, 0.7]]), torch.tensor([0])), {"kind": "probs"}, 'to evaluate with kind="logits"'),
        (("a.csv",), {"ignore_index": 0}, "ignore_index must not be given with the file a.csv"),
        ((torch.tensor([0.5, 0.7]), torch.tensor([0, 1])), {}, r"every score lies in \[0, 1\]"),
        ((torch.tensor([[0.5, 0.7]]), ["cat"]), {}, "pass class_names="),
        ((nn.Linear(2, 2), []), {}, "no batches"),
        ((nn.Softmax(1), [(torch.zeros(3, 2), torch.zeros(3).long())]), {}, "the scores are probabilities"),
        ((nn.Linear(2, 2), [{"x": torch.zeros(3, 2)}]), {}, "labels or label, got x"),
    ],
)
def test_errors(given: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ss.evaluate(*given, **options)


def test_a_dataset_and_a_single_batch_are_refused_as_loaders() -> None:
    x, y = torch.zeros(30, 2), torch.zeros(30).long()
    model = nn.Sequential(nn.Dropout(), nn.Linear(2, 2))
    with pytest.raises(TypeError, match=r"labels must be a loader.*got TensorDataset; wrap the dataset"):
        ss.evaluate(model, TensorDataset(x, y))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"labels must be a loader.*got one batch; pass \[\(x, y\)\]"):
        ss.evaluate(model, (x, y))
    with pytest.raises(TypeError, match="labels must be a loader of batches, got int"):
        ss.evaluate(model, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="logits must be a function of the model's output, got str"):
        ss.evaluate(model, [(x, y)], logits="logits")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"loader must be a loader.*; wrap the dataset in a DataLoader"):
        ss.finetune(model, TensorDataset(x, y), held_out=[(x, y)])  # type: ignore[arg-type]
    assert ss.evaluate(model, [(x, y)]).result.count == 30


def test_batches_of_tokens_may_differ_in_length() -> None:
    """Batches that are padded to their longest sentence."""
    model = nn.Linear(2, 3)
    loader = [(torch.randn(4, length, 2), torch.arange(length).expand(4, length) % 3) for length in (6, 9)]
    evaluation = ss.evaluate(model, loader, logits=lambda output: output.movedim(-1, 1), replicates=0)
    rows, labels = torch.cat([x.flatten(0, 1) for x, _ in loader]), torch.cat([y.flatten() for _, y in loader])
    assert evaluation.metrics() == pytest.approx(ss.evaluate(model(rows), labels, replicates=0).metrics())
    with pytest.raises(ValueError, match=r"the classes must be dimension 1.*logits\.movedim\(-1, 1\)"):
        ss.evaluate(model, loader)


def test_several_labels_per_example_have_an_error_that_says_what_to_do() -> None:
    scores, present = torch.randn(5, 3), torch.tensor([[1, 1, 0]] * 5)
    for labels in (present, present.float()):
        with pytest.raises((TypeError, ValueError), match=r"several labels per example.*MultiLabelCalibration"):
            ss.evaluate(scores, labels)


def test_ignored_labels_are_left_out() -> None:
    logits, labels = arrays()
    expected = ss.evaluate(logits[50:], labels[50:], replicates=0)
    labels[:50] = -100
    for given in ((logits, labels), (nn.Identity(), [(logits, labels)])):
        found = ss.evaluate(*given, ignore_index=-100, replicates=0)
        assert found.metrics() == expected.metrics()
        assert found.about == "150 examples, 3 classes, logits"


def test_labels_of_one_class_are_noted() -> None:
    logits, labels = arrays()
    assert "All labels are the same class." in ss.evaluate(logits, labels * 0).notes()
    assert "All labels are the same class." not in ss.evaluate(logits, labels).notes()


def test_batches_without_labels_are_refused() -> None:
    with pytest.raises(TypeError, match=r"must be \(inputs, labels\)"):
        read_batch(torch.zeros(2), torch.device("cpu"))
    with pytest.raises(TypeError, match="labels of a batch must be a tensor, got str"):
        read_batch((torch.zeros(2), "a"), torch.device("cpu"))


def test_a_page_about_several_models(tmp_path: Path) -> None:
    logits, labels = arrays()
    evaluation = ss.evaluate(3 * logits, labels, bins=15, class_names=["<b>", "dog", "cat"])
    evaluation.save(tmp_path / "sharp.npz")
    models = {"ce": (logits, labels), "sharp": evaluation, "file": tmp_path / "sharp.npz"}
    page = ss.report(models, tmp_path / "page.html").read_text()
    data = json.loads(page.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    assert [model["name"] for model in data["models"]] == ["ce", "sharp", "file"]
    assert data["models"][1]["metrics"]["ece"] == data["models"][2]["metrics"]["ece"]  # both with 20 bins
    assert len(data["comparisons"]) == 2
    assert "<b>" not in page.split("</head>")[1].split("<script")[0]
    assert evaluation.report(tmp_path / "one.html", title="Mine").read_text().count("<title>Mine</title>") == 1


def test_a_page_takes_evaluations_by_their_names(tmp_path: Path) -> None:
    logits, labels = arrays()
    first, second = (ss.evaluate(scale * logits, labels, name=f"model {scale}") for scale in (1, 3))
    expected = ss.report({"model 1": first, "model 3": second}, tmp_path / "page.html").read_text()
    assert ss.report([first, second], tmp_path / "page.html").read_text() == expected
    expected = first.report(tmp_path / "page.html").read_text()
    assert ss.report(first, tmp_path / "page.html").read_text() == expected
    with pytest.raises(ValueError, match="different names, got model 1, model 1; pass name= to evaluate"):
        ss.report([first, first], tmp_path / "page.html")


def test_errors_of_a_page(tmp_path: Path) -> None:
    logits, labels = arrays()
    with pytest.raises(ValueError, match=r"must end in \.html"):
        ss.report({"a": (logits, labels)}, tmp_path / "page.pdf")
    with pytest.raises(TypeError, match="at least one model"):
        ss.report({}, tmp_path / "page.html")
    with pytest.raises(TypeError, match="at least one model"):
        ss.report((logits, labels), tmp_path / "page.html")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"models\['a'\] must be \(logits, labels\)"):
        ss.report({"a": logits}, tmp_path / "page.html")
    with pytest.raises(TypeError, match=r"models\['a'\] must be \(logits, labels\)"):
        ss.report({"a": (logits, labels, labels)}, tmp_path / "page.html")
    with pytest.raises(ValueError, match=r"must end in \.json"):
        ss.evaluate(logits, labels, replicates=0).save(tmp_path / "a.txt")
    assert not list(tmp_path.iterdir())


def test_a_notebook_shows_a_table_and_a_diagram() -> None:
    logits, labels = arrays()
    shown = ss.evaluate(logits, labels, name="<script>")._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown
    assert shown.count("<tr>") == 15
    assert "align-items: flex-start" in shown  # else the height of the table stretches the diagram
    assert 'src="data:image/png;base64,iVBOR' in shown


def test_progress_is_shown_in_a_terminal_and_silent_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(tracked(range(3), "Net")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(Console, "is_terminal", True)
    assert list(tracked(range(3), "Net")) == [0, 1, 2]
    assert "Net" in capsys.readouterr().err


def test_progress_is_shown_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, content: str) -> None:
            shown.append(content)

    def display(content: str, *, display_id: bool) -> Handle:
        assert display_id
        shown.append(content)
        return Handle()

    module = ModuleType("IPython.display")
    module.HTML, module.display = str, display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert list(tracked(iter("ab"), "<Net>")) == ["a", "b"]
    assert list(tracked("ab", "Net")) == ["a", "b"]
    assert shown[0] == "<progress></progress> &lt;Net&gt;: 0"
    assert shown[-1] == '<progress max="2" value="2"></progress> Net: 2 of 2'


def test_evaluate_does_not_change_given_arrays() -> None:
    logits, labels = np.ones((40, 3)), np.zeros(40, int)
    ss.evaluate(logits, labels, replicates=0)
    assert (logits == 1).all()
    assert (labels == 0).all()
