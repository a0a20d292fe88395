"""The kinds of files that users have, written as their programs write them, and what becomes of each.

``PYTHONPATH=src:tests python -m predictions.kinds`` writes the table of docs/predictions.md.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

Array = NDArray[Any]
START, END = "<!-- kinds of files -->", "<!-- end of the kinds of files -->"
NAMES = np.array(["setosa", "versicolor", "virginica"])
DIAGNOSES = np.array(["malignant", "benign"])


@dataclass(frozen=True)
class Truth:
    """What a file says: probabilities and labels; or confidences and whether the predicted classes are right."""

    probs: Array | None = None
    labels: Array | None = None
    confidence: Array | None = None
    correct: Array | None = None
    positive: str | None = None
    from_logits: bool = False  # whether 1 − confidence is known better than the confidence


@dataclass(frozen=True)
class Kind:
    """A kind of file: how it is written, how it is read, and the error if it is refused."""

    program: str
    file: str
    write: Callable[[Path], Truth | None]
    flags: str = ""
    error: str = ""

    @property
    def outcome(self) -> str:
        return f"refused: {self.error}" if self.error else "read"


KINDS: list[Kind] = []


def kind(
    program: str, file: str, flags: str = "", error: str = ""
) -> Callable[[Callable[[Path], Truth | None]], Callable[[Path], Truth | None]]:
    def add(write: Callable[[Path], Truth | None]) -> Callable[[Path], Truth | None]:
        KINDS.append(Kind(program, file, write, flags, error))
        return write

    return add


def softmax(logits: Array) -> Array:
    odds = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
    return np.asarray(odds / odds.sum(1, keepdims=True))


@cache
def digits() -> tuple[Array, Array]:
    """Probabilities of a naive Bayes classifier for ten digits, which is too sure, and labels."""
    images, labels = load_digits(return_X_y=True)
    model = GaussianNB(var_smoothing=1e-2).fit(images[:300], labels[:300])
    return model.predict_proba(images[300:700]), labels[300:700]


@cache
def digit_logits() -> tuple[Array, Array]:
    probs, labels = digits()
    return np.ascontiguousarray(np.log(np.maximum(probs, 1e-30)).astype(np.float32)), labels


@cache
def iris() -> tuple[Array, Array]:
    flowers, labels = load_iris(return_X_y=True)
    return LogisticRegression(C=0.05).fit(flowers[::5], labels[::5]).predict_proba(flowers), labels


@cache
def cancer() -> tuple[Array, Array]:
    """Probabilities of the positive class, benign, and labels 0 and 1."""
    patients, labels = load_breast_cancer(return_X_y=True)
    return GaussianNB().fit(patients[:100], labels[:100]).predict_proba(patients)[:, 1], labels


def multi(probs: Array, labels: Array) -> Truth:
    return Truth(probs=probs.astype(np.float64), labels=labels)


def of_logits(logits: Array, labels: Array, positive: str | None = None) -> Truth:
    if logits.ndim == 1:
        logits = np.stack([np.zeros_like(logits), logits], 1)
    return Truth(probs=softmax(logits), labels=labels, positive=positive, from_logits=True)


def binary(positive: Array, labels: Array, name: str = "1") -> Truth:
    positive = positive.astype(np.float64)
    return Truth(probs=np.stack([1 - positive, positive], 1), labels=labels, positive=name)


def top(confidence: Array, correct: Array) -> Truth:
    return Truth(confidence=confidence.astype(np.float64), correct=correct)


# Arrays


@kind("numpy.savez", "`logits` (N, C), `labels` (N,)")
def _(path: Path) -> Truth:
    logits, labels = digit_logits()
    np.savez(path / "p.npz", logits=logits, labels=labels)
    return of_logits(logits, labels)


@kind("numpy.savez_compressed", "`probs` (N, C) in float64, `labels`")
def _(path: Path) -> Truth:
    probs, labels = digits()
    np.savez_compressed(path / "p.npz", probs=probs, labels=labels)
    return multi(probs, labels)


@kind("torch, half precision", "`logits` in float16")
def _(path: Path) -> Truth:
    logits, labels = digit_logits()
    half = torch.from_numpy(logits).half().numpy()
    np.savez(path / "p.npz", logits=half, labels=labels)
    return of_logits(half, labels)


@kind("numpy, column-major", "`probs` in Fortran order")
def _(path: Path) -> Truth:
    probs, labels = digits()
    np.savez(path / "p.npz", probs=np.asfortranarray(probs), labels=labels)
    return multi(probs, labels)


@kind("Keras, numpy", "`labels` of shape (N, 1)")
def _(path: Path) -> Truth:
    probs, labels = digits()
    np.savez(path / "p.npz", probs=probs, labels=labels[:, None])
    return multi(probs, labels)


@kind("MATLAB-like programs", "`labels` as whole floats")
def _(path: Path) -> Truth:
    probs, labels = digits()
    np.savez(path / "p.npz", probs=probs, labels=labels.astype(np.float32))
    return multi(probs, labels)


@kind("scikit-learn, numpy.savez", "`y_prob` (N, C), `y_true`")
def _(path: Path) -> Truth:
    probs, labels = digits()
    np.savez(path / "p.npz", y_prob=probs, y_true=labels)
    return multi(probs, labels)


@kind("Hugging Face Trainer.predict", "`predictions` (N, C), `label_ids`", "--scores predictions --kind logits")
def _(path: Path) -> Truth:
    logits, labels = digit_logits()
    np.savez(path / "p.npz", predictions=logits, label_ids=labels)
    return of_logits(logits, labels)


@kind("Hugging Face Trainer.predict", "the same without flags", error="has no 'logits' or 'probs'")
def _(path: Path) -> None:
    logits, labels = digit_logits()
    np.savez(path / "p.npz", predictions=logits, label_ids=labels)


@kind("numpy.savez", "`class_names`, `labels` as names")
def _(path: Path) -> Truth:
    probs, labels = iris()
    np.savez(path / "p.npz", probs=probs, labels=NAMES[labels], class_names=NAMES)
    return multi(probs, labels)


@kind("torch.log_softmax, masked classes", "`logits` with −inf")
def _(path: Path) -> Truth:
    logits, labels = digit_logits()
    masked = np.where(logits < logits.max(1, keepdims=True) - 20, -np.inf, logits)
    np.savez(path / "p.npz", logits=masked, labels=labels)
    return of_logits(masked, labels)


@kind("torch.sigmoid", "`probs` (N,), `labels` 0 and 1")
def _(path: Path) -> Truth:
    positive, labels = cancer()
    np.savez(path / "p.npz", probs=positive, labels=labels)
    return binary(positive, labels)


@kind("Keras, one sigmoid unit", "`probs` (N, 1) in float32, boolean `labels`")
def _(path: Path) -> Truth:
    positive, labels = cancer()
    np.savez(path / "p.npz", probs=positive.astype(np.float32)[:, None], labels=labels == 1)
    return binary(positive.astype(np.float32), labels, "True")


@kind("torch, BCEWithLogitsLoss", "`logits` (N,), `labels` 0 and 1 as floats")
def _(path: Path) -> Truth:
    positive, labels = cancer()
    logits = np.clip(np.log(positive + 1e-12) - np.log(1 - positive + 1e-12), -30, 30).astype(np.float32)
    np.savez(path / "p.npz", logits=logits, labels=labels.astype(np.float32))
    return of_logits(logits, labels, "1")


@kind("numpy.savez, top-1", "`confidence`, `predicted`, `labels`")
def _(path: Path) -> Truth:
    probs, labels = digits()
    np.savez(path / "p.npz", confidence=probs.max(1), predicted=probs.argmax(1), labels=labels)
    return top(probs.max(1), probs.argmax(1) == labels)


@kind("numpy.savez, top-1", "`conf`, `correct`")
def _(path: Path) -> Truth:
    probs, labels = digits()
    np.savez(path / "p.npz", conf=probs.max(1), correct=probs.argmax(1) == labels)
    return top(probs.max(1), probs.argmax(1) == labels)


@kind("numpy.save", "`logits.npy` and `labels.npy`", "--labels labels.npy")
def _(path: Path) -> Truth:
    logits, labels = digit_logits()
    np.save(path / "logits.npy", logits)
    np.save(path / "labels.npy", labels)
    return of_logits(logits, labels)


@kind("numpy.save", "`output.npy` and `labels.npy`", "--labels labels.npy --kind probs")
def _(path: Path) -> Truth:
    probs, labels = digits()
    np.save(path / "output.npy", probs)
    np.save(path / "labels.npy", labels)
    return multi(probs, labels)


@kind("safetensors.torch", "`logits`, `labels`")
def _(path: Path) -> Truth:
    logits, labels = digit_logits()
    save_file({"logits": torch.from_numpy(logits), "labels": torch.from_numpy(labels)}, path / "p.safetensors")
    return of_logits(logits, labels)


@kind("safetensors.torch", "`logits` in bfloat16")
def _(path: Path) -> Truth:
    logits, labels = digit_logits()
    rounded = torch.from_numpy(logits).bfloat16()
    save_file({"logits": rounded, "labels": torch.from_numpy(labels)}, path / "p.safetensors")
    return of_logits(rounded.double().numpy(), labels)


@kind("numpy.savez", "class counts or votes", "--normalize")
def _(path: Path) -> Truth:
    probs, labels = digits()
    votes = np.round(probs * 100)
    np.savez(path / "p.npz", probs=votes, labels=labels)
    return multi(votes / votes.sum(1, keepdims=True), labels)


@kind("numpy.savez", "class counts or votes, without the flag", error="--normalize divides each row by its sum")
def _(path: Path) -> None:
    probs, labels = digits()
    np.savez(path / "p.npz", probs=np.round(probs * 100), labels=labels)


@kind("MATLAB-like programs", "`labels` counted from 1", error="if they are counted from 1, subtract 1")
def _(path: Path) -> None:
    probs, labels = digits()
    np.savez(path / "p.npz", probs=probs, labels=labels + 1)


@kind("Keras, to_categorical", "one-hot `labels` (N, C)", error="for one-hot labels, store labels.argmax(1)")
def _(path: Path) -> None:
    probs, labels = digits()
    np.savez(path / "p.npz", probs=probs, labels=np.eye(10)[labels])


@kind("numpy.savez", "`labels` as Python objects", error="which are never unpickled")
def _(path: Path) -> None:
    probs, labels = iris()
    np.savez(path / "p.npz", probs=probs, labels=NAMES[labels].astype(object))


@kind("torch.save", "`.pt`", error="loading it could run code")
def _(path: Path) -> None:
    logits, labels = digit_logits()
    torch.save({"logits": torch.from_numpy(logits), "labels": torch.from_numpy(labels)}, path / "p.pt")


@kind("pickle, DataFrame.to_pickle", "`.pkl`", error="loading it could run code")
def _(path: Path) -> None:
    (path / "p.pkl").write_bytes(pickle.dumps(digits()))


# Tables


def frame(probs: Array, names: Array | None = None, prefix: str = "prob_") -> pd.DataFrame:
    names = np.arange(probs.shape[1]) if names is None else names
    return pd.DataFrame(probs, columns=[f"{prefix}{name}" for name in names])


@kind("DataFrame.to_csv", "`prob_CLASS`, `label` as names")
def _(path: Path) -> Truth:
    probs, labels = iris()
    frame(probs, NAMES).assign(label=NAMES[labels]).to_csv(path / "p.csv", index=False)
    return multi(probs, labels)


@kind("DataFrame.to_csv", "the same with its index")
def _(path: Path) -> Truth:
    probs, labels = iris()
    frame(probs, NAMES).assign(label=NAMES[labels]).to_csv(path / "p.csv")
    return multi(probs, labels)


@kind("DataFrame.to_csv", "`label` as floats, after a join")
def _(path: Path) -> Truth:
    probs, labels = digits()
    frame(probs).assign(label=labels.astype(float)).to_csv(path / "p.csv", index=False)
    return multi(probs, labels)


@kind("Excel, European settings", "semicolons, decimal commas, byte order mark")
def _(path: Path) -> Truth:
    probs, labels = iris()
    table = frame(probs, NAMES).assign(label=NAMES[labels])
    table.to_csv(path / "p.csv", index=False, sep=";", decimal=",", encoding="utf-8-sig")
    return multi(probs, labels)


@kind("DataFrame.to_csv", "tabs, `.tsv`")
def _(path: Path) -> Truth:
    probs, labels = digits()
    frame(probs).assign(label=labels).to_csv(path / "p.tsv", index=False, sep="\t")
    return multi(probs, labels)


@kind("DataFrame.to_csv", "`.csv.gz`")
def _(path: Path) -> Truth:
    probs, labels = digits()
    frame(probs).assign(label=labels).to_csv(path / "p.csv.gz", index=False)
    return multi(probs, labels)


@kind("zstd", "`.csv.zst`")
def _(path: Path) -> Truth:
    probs, labels = digits()
    text = frame(probs).assign(label=labels).to_csv(index=False)
    with pa.output_stream(path / "p.csv.zst", compression="zstd") as file:
        file.write(text.encode())
    return multi(probs, labels)


@kind("DataFrame.round(2)", "probabilities with two decimals")
def _(path: Path) -> Truth:
    probs, labels = iris()
    rounded = frame(probs, NAMES).round(2)
    rounded.assign(label=NAMES[labels]).to_csv(path / "p.csv", index=False)
    return multi(rounded.to_numpy(), labels)


@kind("DataFrame.to_csv(float_format='%.3f')", "probabilities with three decimals", "--normalize")
def _(path: Path) -> Truth:
    probs, labels = digits()
    frame(probs).assign(label=labels).to_csv(path / "p.csv", index=False, float_format="%.3f")
    rounded = np.array([[float(f"{value:.3f}") for value in row] for row in probs])
    return multi(rounded / rounded.sum(1, keepdims=True), labels)


@kind("spreadsheets", "percentages", "--normalize")
def _(path: Path) -> Truth:
    probs, labels = iris()
    percent = (probs * 100).round(1)
    frame(percent, NAMES).assign(label=NAMES[labels]).to_csv(path / "p.csv", index=False)
    return multi(percent / percent.sum(1, keepdims=True), labels)


@kind("spreadsheets", "percentages with their sign, `99.4%`")
def _(path: Path) -> Truth:
    probs, labels = iris()
    table = frame(probs.round(3), NAMES).map("{:.1%}".format)
    table.assign(label=NAMES[labels]).to_csv(path / "p.csv", index=False)
    return multi(probs.round(3), labels)


@kind("spreadsheets", "percentages: true_label, pred_label, confidence", "--normalize")
def _(path: Path) -> Truth:
    probs, labels = iris()
    percent, predicted = (probs.max(1) * 100).round(1), probs.argmax(1)
    table = {"true_label": NAMES[labels], "pred_label": NAMES[predicted], "confidence": percent}
    pd.DataFrame(table).to_csv(path / "p.csv", index=False)
    return top(percent / 100, predicted == labels)


@kind("spreadsheets", "percentages, without flags", error="--normalize divides them by 100")
def _(path: Path) -> None:
    probs, labels = iris()
    table = {"confidence": (probs.max(1) * 100).round(1), "correct": (probs.argmax(1) == labels).astype(int)}
    pd.DataFrame(table).to_csv(path / "p.csv", index=False)


@kind("spreadsheets", "percentages of the positive class", "--normalize")
def _(path: Path) -> Truth:
    positive, labels = cancer()
    percent = (positive * 100).round(1)
    pd.DataFrame({"y_true": labels, "y_prob": percent}).to_csv(path / "p.csv", index=False)
    return binary(percent / 100, labels)


@kind("spreadsheets", "percentages of the positive class, without flags", error="--normalize divides them by 100")
def _(path: Path) -> None:
    positive, labels = cancer()
    pd.DataFrame({"y_true": labels, "y_prob": (positive * 100).round(1)}).to_csv(path / "p.csv", index=False)


@kind("spreadsheets", "Unicode text: UTF-16 with tabs, .txt")
def _(path: Path) -> Truth:
    probs, labels = iris()
    frame(probs, NAMES).assign(label=NAMES[labels]).to_csv(path / "p.txt", index=False, sep="\t", encoding="utf-16")
    return multi(probs, labels)


@kind("numpy.savetxt(file, numpy.column_stack([labels, probs]))", "its default format, .txt", "--kind probs")
def _(path: Path) -> Truth:
    probs, labels = iris()
    np.savetxt(path / "p.txt", np.column_stack([labels, probs]))
    return multi(probs, labels)


@kind("numpy.savetxt(file, numpy.column_stack([logits, labels]))", "its default format, .csv", "--kind logits")
def _(path: Path) -> Truth:
    logits, labels = digit_logits()
    np.savetxt(path / "p.csv", np.column_stack([logits, labels]))
    return of_logits(logits.astype(np.float64), labels)


@kind("numpy.savetxt", "no headings, labels last", "--kind probs")
def _(path: Path) -> Truth:
    probs, labels = iris()
    np.savetxt(path / "p.csv", np.column_stack([probs, labels]), delimiter=",", fmt=["%.18e"] * 3 + ["%d"])
    return multi(probs, labels)


@kind("csv.writer", "no headings, names first", "--kind probs", error="the classes are 0, 1, 2")
def _(path: Path) -> None:
    probs, labels = iris()
    pd.DataFrame(probs).assign(z=NAMES[labels])[["z", 0, 1, 2]].to_csv(path / "p.csv", index=False, header=False)


@kind("numpy.savetxt", "no headings, without flags", error="set --kind logits or --kind probs")
def _(path: Path) -> None:
    probs, labels = iris()
    np.savetxt(path / "p.csv", np.column_stack([probs, labels]), delimiter=",", fmt=["%.18e"] * 3 + ["%d"])


@kind("pd.DataFrame(probs, columns=model.classes_)", "columns are the classes", "--kind probs")
def _(path: Path) -> Truth:
    probs, labels = iris()
    frame(probs, NAMES, "").assign(label=NAMES[labels]).to_csv(path / "p.csv", index=False)
    return multi(probs, labels)


@kind("pd.DataFrame(logits)", "columns `0` … `9`, `target`", "--kind logits")
def _(path: Path) -> Truth:
    logits, labels = digit_logits()
    pd.DataFrame(logits.astype(float)).assign(target=labels).to_csv(path / "p.csv")
    return of_logits(logits, labels)


@kind("R, Julia", "`prob_1` … `prob_3`, labels 1 … 3", "--labels-are names")
def _(path: Path) -> Truth:
    probs, labels = iris()
    frame(probs, np.arange(1, 4)).assign(label=labels + 1).to_csv(path / "p.csv", index=False)
    return multi(probs, labels)


@kind("R, Julia", "the same without flags", error="could be a class name or an index")
def _(path: Path) -> None:
    probs, labels = iris()
    frame(probs, np.arange(1, 4)).assign(label=labels + 1).to_csv(path / "p.csv", index=False)


@kind("csv.writer", "class names with commas, quoted")
def _(path: Path) -> Truth:
    probs, labels = iris()
    names = np.array(["a, b", 'say "c"', "d"])
    frame(probs, names).assign(label=names[labels]).to_csv(path / "p.csv", index=False)
    return multi(probs, labels)


def top_table(probs: Array, labels: Array, names: Array) -> dict[str, Array]:
    return {"label": names[labels], "predicted": names[probs.argmax(1)], "confidence": probs.max(1)}


def write_top(path: Path, headings: list[str], **options: Any) -> Truth:
    probs, labels = iris()
    table = pd.DataFrame(top_table(probs, labels, NAMES)).set_axis(headings, axis=1)
    table.to_csv(path / "p.csv", index=False, **options)
    return top(probs.max(1), probs.argmax(1) == labels)


@kind("evaluation scripts, top-1", "`true_label`, `pred_label`, `confidence`")
def _(path: Path) -> Truth:
    return write_top(path, ["true_label", "pred_label", "confidence"])


@kind("evaluation scripts, top-1", "`True Label`, `Prediction`, `Probability`")
def _(path: Path) -> Truth:
    return write_top(path, ["True Label", "Prediction", "Probability"])


@kind("evaluation scripts, top-1", "`y_true`, `y_pred`, `max_prob`, semicolons", "")
def _(path: Path) -> Truth:
    return write_top(path, ["y_true", "y_pred", "max_prob"], sep=";", decimal=",")


@kind("evaluation scripts, top-1", "other names", "--kind confidence --scores c --predicted b --labels a")
def _(path: Path) -> Truth:
    return write_top(path, ["a", "b", "c"])


@kind("evaluation scripts, top-1", "`confidence`, `correct` as True and False")
def _(path: Path) -> Truth:
    probs, labels = digits()
    correct = probs.argmax(1) == labels
    pd.DataFrame({"confidence": probs.max(1), "correct": correct}).to_csv(path / "p.csv", index=False)
    return top(probs.max(1), correct)


@kind("scikit-learn, binary", "`y_true`, `y_prob`, labels 0 and 1")
def _(path: Path) -> Truth:
    positive, labels = cancer()
    pd.DataFrame({"y_true": labels, "y_prob": positive}).to_csv(path / "p.csv", index=False)
    return binary(positive, labels)


@kind("pandas, binary", "`label` True and False, `probability`")
def _(path: Path) -> Truth:
    positive, labels = cancer()
    pd.DataFrame({"label": labels == 1, "probability": positive}).to_csv(path / "p.csv", index=False)
    return binary(positive, labels, "True")


@kind("pandas, binary", "`prob_benign`, two names as labels")
def _(path: Path) -> Truth:
    positive, labels = cancer()
    pd.DataFrame({"label": DIAGNOSES[labels], "prob_benign": positive}).to_csv(path / "p.csv", index=False)
    return binary(positive, labels, "benign")


@kind("pandas, binary", "`prob`, two names as labels", "--positive benign")
def _(path: Path) -> Truth:
    positive, labels = cancer()
    pd.DataFrame({"label": DIAGNOSES[labels], "prob": positive}).to_csv(path / "p.csv", index=False)
    return binary(positive, labels, "benign")


@kind("SVM, decision_function", "`score`, labels −1 and 1", "--scores score --kind logits")
def _(path: Path) -> Truth:
    positive, labels = cancer()
    margin = np.clip(np.log((positive + 1e-9) / (1 - positive + 1e-9)), -20, 20)
    pd.DataFrame({"label": 2 * labels - 1, "score": margin}).to_csv(path / "p.csv", index=False)
    return of_logits(margin, labels, "1")


@kind("pandas, binary", "`y_true`, `y_pred`, `y_prob`", error="set --kind confidence or --kind probs")
def _(path: Path) -> None:
    positive, labels = cancer()
    table = {"y_true": labels, "y_pred": (positive > 0.5).astype(int), "y_prob": positive}
    pd.DataFrame(table).to_csv(path / "p.csv", index=False)


@kind("pandas, binary", "`y_true`, `y_pred`, `y_prob`", "--kind probs")
def _(path: Path) -> Truth:
    positive, labels = cancer()
    table = {"y_true": labels, "y_pred": (positive > 0.5).astype(int), "y_prob": positive}
    pd.DataFrame(table).to_csv(path / "p.csv", index=False)
    return binary(positive, labels)


@kind(
    "pandas",
    "logits in columns `prob_CLASS`",
    error="if these are logits, rename them or set --scores NAME --kind logits",
)
def _(path: Path) -> None:
    logits, labels = digit_logits()
    frame(logits).assign(label=labels).to_csv(path / "p.csv", index=False)


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    (path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@kind("json, one object per line", "`probs` as a list, `label`")
def _(path: Path) -> Truth:
    probs, labels = digits()
    write_lines(path, [{"id": i, "probs": row.tolist(), "label": int(labels[i])} for i, row in enumerate(probs)])
    return multi(probs, labels)


@kind("json, one object per line", "`logits` as an object of classes")
def _(path: Path) -> Truth:
    probs, labels = iris()
    logits = np.log(probs)
    rows = [dict(zip(NAMES.tolist(), row, strict=True)) for row in logits.tolist()]
    write_lines(path, [{"logits": row, "label": str(NAMES[label])} for row, label in zip(rows, labels, strict=True)])
    return of_logits(logits, labels)


@kind("DataFrame.to_json(lines=True)", "`prob_CLASS`, `label`")
def _(path: Path) -> Truth:
    probs, labels = iris()
    table = frame(probs, NAMES).assign(label=NAMES[labels])
    table.to_json(path / "p.jsonl", orient="records", lines=True, double_precision=15)
    return multi(np.round(probs, 15), labels)


@kind("DataFrame.to_json(lines=True), top-1", "`label`, `prediction`, `score`")
def _(path: Path) -> Truth:
    probs, labels = iris()
    table = pd.DataFrame(top_table(probs, labels, NAMES)).set_axis(["label", "prediction", "score"], axis=1)
    table.to_json(path / "p.jsonl", orient="records", lines=True, double_precision=15)
    return top(np.round(probs.max(1), 15), probs.argmax(1) == labels)


@kind("DataFrame.to_json", "`.json`", error="write one object per line")
def _(path: Path) -> None:
    frame(digits()[0]).assign(label=digits()[1]).to_json(path / "p.json", orient="records")


@kind("DataFrame.to_parquet", "`prob_CLASS`, `label` as categories")
def _(path: Path) -> Truth:
    probs, labels = iris()
    frame(probs, NAMES).assign(label=pd.Categorical(NAMES[labels])).to_parquet(path / "p.parquet")
    return multi(probs, labels)


@kind("datasets, pyarrow", "list column `logits`, `.parquet`")
def _(path: Path) -> Truth:
    logits, labels = digit_logits()
    pd.DataFrame({"logits": list(logits), "label": labels}).to_parquet(path / "p.parquet")
    return of_logits(logits, labels)


@kind("DataFrame.to_parquet, top-1", "`target`, `pred`, `conf`")
def _(path: Path) -> Truth:
    probs, labels = digits()
    table = {"target": labels, "pred": probs.argmax(1), "conf": probs.max(1)}
    pd.DataFrame(table).to_parquet(path / "p.parquet")
    return top(probs.max(1), probs.argmax(1) == labels)


@kind("DataFrame.to_feather", "`prob_CLASS`, `label`")
def _(path: Path) -> Truth:
    probs, labels = digits()
    frame(probs).assign(label=labels).to_feather(path / "p.feather")
    return multi(probs, labels)


@kind("DataFrame.to_feather, binary", "`y`, `proba`, boolean labels")
def _(path: Path) -> Truth:
    positive, labels = cancer()
    pd.DataFrame({"y": labels == 1, "proba": positive}).to_feather(path / "p.feather")
    return binary(positive, labels, "True")


def table() -> str:
    """Return the table of docs/predictions.md."""
    head = ["| written by | file | flags | outcome |", "|---|---|---|---|"]
    rows = [
        f"| {one.program} | {one.file} | {f'`{one.flags}`' if one.flags else ''} | {one.outcome} |" for one in KINDS
    ]
    return "\n".join([START, "", *head, *rows, "", END])


DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "predictions.md"

if __name__ == "__main__":
    text = DOCUMENT.read_text(encoding="utf-8")
    before, rest = text.split(START)
    DOCUMENT.write_text(before + table() + rest.split(END)[1], encoding="utf-8")
