"""Examples to inspect: the most confident mistakes and the least confident correct predictions."""

from __future__ import annotations

import base64
import io
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from singleshot.data import Images
from singleshot.report.page.classes import Outcomes

MAX_EXAMPLES = 24
IMAGE_SIZE, SMALL_IMAGE_SIZE = 64, 32
MAX_LARGE = 4
"""Models up to which images are large: 48 images of 64 × 64 pixels take up to 0.8 MB, and a page stays below 5 MB."""


def examples_to_inspect(
    outcomes: Outcomes,
    images: Images | None = None,
    positions: Tensor | None = None,
    *,
    image_size: int = IMAGE_SIZE,
) -> dict[str, list[dict[str, Any]]]:
    """Select examples, with their images if given, reduced to at most ``image_size`` pixels.

    ``positions`` are the indices of the examples in ``images``, by default their rows.
    """
    examples = outcomes.examples

    def select(mask: Tensor, key: Tensor) -> list[dict[str, Any]]:
        rows = mask.nonzero().squeeze(1)
        order = torch.sort(key[rows], stable=True).indices[:MAX_EXAMPLES]
        return [describe(int(row)) for row in rows[order]]

    def describe(row: int) -> dict[str, Any]:
        index = row if positions is None else int(positions[row])
        return {
            "image": None if images is None else png_data_uri(images.images[index], image_size),
            "label": outcomes.label(outcomes.labels[row]),
            "predicted": outcomes.label(outcomes.predicted[row]),
            "confidence": float(examples.confidence[row]),
            "index": index,
        }

    return {
        "mistakes": select(~examples.correct, -examples.confidence),
        "correct": select(examples.correct, examples.confidence),
    }


def png_data_uri(image: Tensor, max_size: int = IMAGE_SIZE) -> str:
    """Encode a uint8 image (C, H, W) as a data URI, reduced to a maximum width and height."""
    channels = image if len(image) in {1, 3} else image[:1]  # show the first channel of other images in grey
    pixels = channels.permute(1, 2, 0).contiguous().numpy()
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    picture.thumbnail((max_size, max_size))
    file = io.BytesIO()
    picture.save(file, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
