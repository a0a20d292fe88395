"""``singleshot predict``: classify images with a trained run."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from singleshot.cli.options import AsJson, Flag, Paths, Weights
from singleshot.common.text import print_status, printable

if TYPE_CHECKING:
    from singleshot.training.inference import Prediction


def predict(  # noqa: PLR0917
    run: Annotated[Positional[Path], arg(metavar="RUN")],
    images: Annotated[Paths, arg(metavar="IMAGES")],
    abstain_below: float = 0.0,
    weights: Weights = "last",
    skip_unreadable: Flag = False,
    device: str = "auto",
    as_json: AsJson = False,
) -> None:
    """Classify images with a trained run, and abstain if the confidence is too low.

    Example: singleshot predict runs/a cat.jpg photos/ --abstain-below 0.8

    Args:
        run: folder of a run of `singleshot train`.
        images: image files, or folders of images.
        abstain_below: abstain for images with a confidence below this.
        weights: of the last checkpoint, or of the best on the validation images.
        skip_unreadable: leave out files that cannot be read as images, and count them.
        device: cpu, cuda, cuda:1, mps; auto selects the fastest available.
        as_json: print a list of objects instead of a table.
    """
    if not 0 <= abstain_below <= 1:
        raise ValueError(f"--abstain-below must lie in [0, 1], got {abstain_below}")
    if not images:
        raise ValueError("give at least one image: singleshot predict RUN cat.jpg photos/")
    from singleshot.training.inference import predict as predict_images

    predictions, unreadable = predict_images(
        run, images, abstain_below=abstain_below, weights=weights, device=device, skip_unreadable=skip_unreadable
    )
    if unreadable:
        print_status(f"{len(unreadable)} left out; the first: {printable(unreadable[0])}")
    if as_json:
        print(json.dumps([asdict(prediction) for prediction in predictions], indent=2))
    else:
        _print_table(predictions, abstain_below)


def _text(confidence: float) -> str:
    """Format a confidence with three decimals, or with more so that only 1 is shown as 1.

    >>> _text(0.7), _text(0.9999999), _text(1.0)
    ('0.700', '0.9999999', '1.000')
    """
    texts = (f"{confidence:.{digits}f}" for digits in range(3, 17))
    return next((text for text in texts if float(text) < 1), "1.000")


def _print_table(predictions: list[Prediction], abstain_below: float) -> None:
    from rich.cells import cell_len, set_cell_size

    rows = [("image", "class", "confidence")]
    for one in predictions:
        name = "— abstained" if one.abstained else printable(one.class_name)
        rows.append((printable(one.image), name, _text(one.confidence)))
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for image, name, confidence in rows:  # plain text: a table would wrap or truncate long paths
        print(f"{set_cell_size(image, widths[0])}  {set_cell_size(name, widths[1])}  {confidence:>10}")
    if abstain_below:
        abstained = sum(one.abstained for one in predictions)
        print(f"{abstained} of {len(predictions)} abstained: confidence below {abstain_below:g}")
