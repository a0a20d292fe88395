"""The most confident mistakes and the least confident hits, with their images where these are at hand."""

from __future__ import annotations

import base64
import io
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from singleshot.data import Images
from singleshot.metrics.examples import Examples
from singleshot.report.page.classes import Answers
from singleshot.report.page.text import class_label

MOST_IMAGES = 24
EDGE, SMALL_EDGE = 64, 32
FEW_GALLERIES = 4
"""Galleries up to which images may be large: 48 of 64 × 64 pixels take up to 0.8 MB, and a page stays below 5 MB."""


def gallery(
    answers: Answers,
    examples: Examples,
    part: Images | None,
    positions: Tensor | None,
    names: tuple[str, ...] | None,
    *,
    edge: int = EDGE,
) -> dict[str, list[dict[str, Any]]]:
    """What to look at among the examples, which are those at these positions of a part of a data set, in this order.

    Without a part there are no images, and without positions an example is known by its row.
    """

    def entry(row: int) -> dict[str, Any]:
        position = row if positions is None else int(positions[row])
        return {
            "image": None if part is None else png_data_uri(part.images[position], edge),
            "label": class_label(int(answers.labels[row]), names),
            "predicted": class_label(int(answers.predicted[row]), names),
            "confidence": float(examples.confidence[row]),
            "index": position,
        }

    return {
        "mistakes": [entry(row) for row in _first(~examples.correct, -examples.confidence)],
        "hits": [entry(row) for row in _first(examples.correct, examples.confidence)],
    }


def png_data_uri(image: Tensor, edge: int = EDGE) -> str:
    """An image (C, H, W) of uint8 as it stands in an HTML page, no larger than so many pixels either way."""
    channels = image if len(image) in {1, 3} else image[:1]  # what else there is has no colours to show
    pixels = channels.permute(1, 2, 0).contiguous().numpy()
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    picture.thumbnail((edge, edge))
    file = io.BytesIO()
    picture.save(file, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _first(chosen: Tensor, key: Tensor) -> list[int]:
    """The rows among the chosen ones with the smallest keys; equal ones in their order."""
    rows = chosen.nonzero().squeeze(1)
    order = torch.sort(key[rows], stable=True).indices[:MOST_IMAGES]
    return [int(row) for row in rows[order]]
