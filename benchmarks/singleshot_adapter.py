"""What this library is asked to do for docs/comparison.md."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from library_adapters import Library, Scores


class Singleshot(Library):
    """This library."""

    distribution, package = "singleshot", "singleshot"
    statement = "from singleshot import Calibration"

    def calibration(self, labels: Scores, *, classwise: bool = False, **scores: Scores) -> Any:
        import singleshot as ss

        calibration = ss.Calibration(15, classwise=classwise)
        calibration.update(labels=labels, **scores)
        return calibration

    def ece(self, probs: Scores, labels: Scores) -> float:
        return float(self.calibration(labels, probs=probs).compute().ece)

    binary_ece = ece

    def ece_of_logits(self, logits: Scores, labels: Scores) -> float:
        return float(self.calibration(labels, logits=logits).compute().ece)

    def state_bytes(self, probs: Scores, labels: Scores) -> int:
        return sum(total.nbytes for total in self.calibration(labels, probs=probs)._sums.values())

    def classwise_bytes(self, probs: Scores, labels: Scores) -> int:
        return sum(total.nbytes for total in self.calibration(labels, probs=probs, classwise=True)._sums.values())

    def merged_ece(self, parts: Iterable[tuple[Scores, Scores]]) -> float:
        first, second = (self.calibration(labels, probs=probs) for probs, labels in parts)
        return float(first.merge(second).compute().ece)

    def shared_ece(self, probs: Scores, labels: Scores) -> float:
        return float(self.calibration(labels, probs=probs).all_reduce().compute().ece)

    def brier(self, probs: Scores, labels: Scores) -> float:
        return float(self.calibration(labels, probs=probs).compute().brier)

    def debiased_ece(self, probs: Scores, labels: Scores) -> float:
        import singleshot as ss

        return float(ss.debiased_ece(ss.Examples.of(probs=probs, labels=labels), bins=15))

    def interval(self, probs: Scores, labels: Scores) -> tuple[float, float]:
        import singleshot as ss

        found: Any = ss.evaluate(probs, labels, kind="probs", progress=False, replicates=100).intervals["ece"]
        return float(found.low), float(found.high)

    def aurc(self, probs: Scores, labels: Scores) -> float:
        import singleshot as ss

        return float(ss.risk_coverage(ss.Examples.of(probs=probs, labels=labels)).aurc)

    def temperature(self, logits: Scores, labels: Scores) -> float:
        import torch

        import singleshot as ss

        return float(ss.TemperatureScaling.fit(torch.tensor(logits), torch.tensor(labels)).temperature)

    def passes(self, model: Any, inputs: Any) -> Any:
        import singleshot as ss

        return ss.sample(model.eval(), inputs, samples=5)

    def losses(self) -> dict[str, Callable[..., Any]]:
        import singleshot as ss

        found = {name: ss.create_loss(name) for name in ss.list_losses() if name != "cross_entropy"}
        vwci = found["vwci"]
        return found | {"vwci": lambda logits, labels: vwci(logits + logits.new_zeros(5, 1, 1), labels)}

    def scalings(self) -> dict[str, Callable[..., Any]]:
        import torch

        import singleshot as ss

        makes: tuple[Any, ...] = (
            ss.TemperatureScaling, ss.VectorScaling, ss.MatrixScaling, ss.HistogramBinning, ss.IsotonicScaling,
        )  # fmt: skip
        return {m.__name__: lambda z, y, m=m: m.fit(torch.tensor(z), torch.tensor(y)) for m in makes}

    def diagram(self, probs: Scores, labels: Scores) -> Any:
        import singleshot as ss

        return ss.plot_reliability(self.calibration(labels, probs=probs).compute()).figure

    def page(self, probs: Scores, labels: Scores) -> str:
        import singleshot as ss

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "page.html")
            ss.evaluate(probs, labels, kind="probs", progress=False, replicates=100).report(path)
            return path.read_text("utf-8")

    def formats(self) -> list[str]:
        from safetensors.numpy import save_file

        import singleshot as ss

        rows = "\n".join(["logit_a,logit_b,label", *["2.0,0.0,a", "0.0,1.0,b"] * 10])
        lines = [json.dumps({"logit_a": 2.0, "logit_b": 0.0, "label": "a"})] * 20
        with tempfile.TemporaryDirectory() as folder:
            paths = [
                Path(folder, "predictions" + ending) for ending in (".csv", ".tsv", ".jsonl", ".npz", ".safetensors")
            ]
            paths[0].write_text(rows, "utf-8")
            paths[1].write_text(rows.replace(",", "\t"), "utf-8")
            paths[2].write_text("\n".join(lines), "utf-8")
            arrays = {"logits": np.eye(20, 2), "labels": np.zeros(20, np.int64)}
            np.savez(paths[3], **arrays)  # type: ignore[arg-type]
            save_file(arrays, paths[4])
            for path in paths:
                assert ss.evaluate(path, progress=False, replicates=100).result.count == 20
        return [path.suffix for path in paths]

    def export(self, model: Any, inputs: Any, format: str, ending: str) -> None:
        import singleshot as ss

        with tempfile.TemporaryDirectory() as folder:
            ss.export_model(model, Path(folder, "model" + ending), example=inputs, format=format)
