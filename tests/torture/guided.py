"""Coverage-guided fuzzing of the readers with atheris (the extra singleshot[fuzz]).

    python -m torture.guided CORPUS -max_total_time=60 -seed=1

The first byte of an input selects the reader, the rest is the content of the file.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torture.tally import Tally, refused_with

SECONDS = 15
IS_INSTALLED = find_spec("atheris") is not None


def guided_fuzzing(tally: Tally) -> None:
    """Fuzz in a process of its own, from a corpus that grows over the attempts; each input is a case."""
    corpus = tally.shared / "corpus"
    if not corpus.exists():
        corpus.mkdir()
        for number, content in enumerate(examples(tally.folder)):
            (corpus / f"example-{number}").write_bytes(bytes([number]) + content)
    options = [f"-max_total_time={SECONDS}", f"-seed={tally.random.randrange(1, 2**31)}", "-timeout=30"]
    options += ["-rss_limit_mb=4096", "-max_len=8192", f"-artifact_prefix={tally.shared}/"]
    with tally.case("guided"):
        done = subprocess.run(
            [sys.executable, "-m", "torture.guided", str(corpus), *options],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20 * SECONDS,
            check=False,
        )
        runs = re.findall(r"^Done (\d+) runs", done.stderr, flags=re.MULTILINE)
        tally.tried += int(runs[-1]) - 1 if runs else 0
        assert done.returncode == 0, done.stderr[-3000:]


def readers() -> dict[str, Callable[[Path], Any]]:
    """The readers by the name of the file that they read."""
    import singleshot as ss
    from singleshot.data.decoding import decode_image
    from singleshot.data.formats.mnist import read_idx
    from singleshot.posthoc import load_scaling
    from singleshot.predictions import read_predictions
    from singleshot.training.recipe_file import read_recipe_values

    def predictions(path: Path) -> None:
        labels = str(path) if path.suffix == ".npy" else None
        for _ in read_predictions(path, kind="logits", labels=labels).chunks(5):
            pass

    return {
        "a.npz": predictions,
        "a.npy": predictions,
        "a.csv": predictions,
        "a.csv.gz": predictions,
        "a.safetensors": predictions,
        "state.json": ss.Calibration.load,
        "scaling.json": load_scaling,
        "recipe.yaml": read_recipe_values,
        "labels.idx": lambda path: read_idx(path, ()),
        "labels.gz": lambda path: read_idx(path, ()),
        "image.png": lambda path: decode_image(path, 8, 3),
    }


def examples(folder: Path) -> list[bytes]:
    """A valid file for each reader, in their order."""
    import gzip

    import torch
    from PIL import Image

    import singleshot as ss
    from predictions.files import WRITERS, predictions
    from singleshot.training.recipe import Recipe
    from singleshot.training.recipe_file import recipe_text

    scores, labels = predictions(6, 3, "logits")
    formats = ("npz", "npy", "csv", "csv.gz", "safetensors")
    found = [WRITERS[name](folder, scores, labels, "logits")[0].read_bytes() for name in formats]
    calibration = ss.Calibration(bins=3)
    calibration.update(logits=torch.tensor(scores), labels=torch.tensor(labels))
    calibration.save(folder / "state.json")
    ss.TemperatureScaling(1.5).save(folder / "scaling.json")
    Image.new("RGB", (4, 4), "teal").save(folder / "image.png")
    idx = (2049).to_bytes(4, "big") + (4).to_bytes(4, "big") + bytes(range(4))
    found += [(folder / name).read_bytes() for name in ("state.json", "scaling.json")]
    found += [recipe_text(Recipe().resolved()).encode(), idx, gzip.compress(idx)]
    return [*found, (folder / "image.png").read_bytes()]


def main() -> None:
    """Fuzz until a time limit or a failure."""
    import atheris

    with atheris.instrument_imports(include=["singleshot", "yaml", "zipfile", "csv"]):
        targets = list(readers().items())
    folder = Path(tempfile.mkdtemp())

    def run(data: bytes) -> None:
        name, read = targets[data[0] % len(targets)] if data else targets[0]
        path = folder / name
        path.write_bytes(data[1:])
        try:
            read(path)
        except ValueError as error:
            refused_with(error, name)

    atheris.Setup(sys.argv, run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
