"""Decoding and resizing of images, and pixel statistics."""

from __future__ import annotations

import errno
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
import PIL.Image
import PIL.ImageOps
from PIL.Image import Image

Pixels = npt.NDArray[np.uint8]
BATCH = 500  # images held in memory at once

EXTENSIONS = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})

# Pillow tries only these decoders, whatever the file's extension: some others start external programs.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_ACCESS_ERRORS = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ELOOP}


class UnreadableImageError(ValueError):
    """A file cannot be decoded as an image.

    >>> try:
    ...     decode_image(Path("missing.png"), size=8, channels=3)
    ... except UnreadableImageError as error:
    ...     print(error)
    missing.png cannot be read: No such file or directory
    """


def decode_image(path: Path, size: int, channels: int) -> Pixels:
    """Decode an image file to pixels (channels, size, size): the largest central square, resized.

    One channel gives grayscale, three give RGB. Only the first frame is used, the EXIF orientation is applied, and
    transparent pixels become white.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     PIL.Image.new("RGB", (40, 20), "white").save(f"{folder}/a.png")
    ...     decode_image(Path(folder, "a.png"), size=8, channels=3).shape
    (3, 8, 8)
    """
    if path.exists() and not path.is_file():  # opening a named pipe would block
        raise UnreadableImageError(f"{path} cannot be read: it is not a regular file")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns about unusual metadata
        warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)
        try:
            with PIL.Image.open(path, formats=_FORMATS) as image:
                # A JPEG can be decoded at 1/2, 1/4 or 1/8 of its size; four times the final size loses no detail.
                image.draft(None, (4 * size, 4 * size))
                square = _resize_square(_to_eight_bit(image, "L" if channels == 1 else "RGB"), size)
        except PIL.UnidentifiedImageError:
            raise UnreadableImageError(
                f"{path} is not an image in a supported format ({', '.join(_FORMATS)})"
            ) from None
        except (PIL.Image.DecompressionBombWarning, PIL.Image.DecompressionBombError):
            raise UnreadableImageError(
                f"{path} has more than {PIL.Image.MAX_IMAGE_PIXELS:,} pixels, the limit for safe decoding"
            ) from None
        except OSError as error:
            if error.errno is not None and error.errno not in _ACCESS_ERRORS:
                raise  # a failing disk, not a damaged image
            raise UnreadableImageError(f"{path} cannot be read: {error.strerror or error}") from None
        except Exception as error:  # decoders raise many types of exceptions for damaged files
            raise UnreadableImageError(f"{path} is damaged: {error or type(error).__name__}") from None
    pixels = np.asarray(square, np.uint8)
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def resize_images(images: Pixels, size: int) -> Pixels:
    """Resize images (N, C, H, W). Images that already have the size are returned unchanged."""
    if images.shape[2:] == (size, size):
        return images
    resized = np.empty((*images.shape[:2], size, size), np.uint8)
    for image, target in zip(images, resized, strict=True):
        for channel, plane in enumerate(image):
            target[channel] = np.asarray(_resize_square(PIL.Image.fromarray(plane), size))
    return resized


def _to_eight_bit(image: Image, mode: str) -> Image:
    """Convert to the mode, with the EXIF orientation applied and transparent pixels white."""
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        # 16 bits. Pillow's own conversion clips values above 255 instead of scaling.
        image = PIL.Image.fromarray((np.asarray(image).astype(np.int32) >> 8).clip(0, 255).astype(np.uint8))
    elif image.mode in ("I", "F"):
        raise ValueError("32-bit pixels have no defined range; save it with 8 bits per channel")
    image = PIL.ImageOps.exif_transpose(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = PIL.Image.alpha_composite(PIL.Image.new("RGBA", image.size, "white"), image)
    return image.convert(mode)


def _resize_square(image: Image, size: int) -> Image:
    """Crop the largest central square and resize it."""
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    # When downscaling, Pillow widens the filter by the scale, which prevents aliasing.
    return image.resize((size, size), PIL.Image.Resampling.BICUBIC, box=(left, top, left + side, top + side))


def channel_statistics(images: Pixels) -> tuple[list[float], list[float]]:
    """Return the mean and standard deviation of each channel of images (N, C, H, W), with pixels scaled to [0, 1].

    The standard deviation is at least 1/255, so that constant images can be normalized.

    >>> channel_statistics(np.array([[[[0, 255]]]], np.uint8))
    ([0.5], [0.5])
    """
    counts = np.zeros((images.shape[1], 256), np.int64)
    for first in range(0, len(images), BATCH):
        for channel in range(len(counts)):
            counts[channel] += np.bincount(images[first : first + BATCH, channel].reshape(-1), minlength=256)
    # Integers until the last step: 64 bits hold the sum of squares of 10¹⁴ pixels.
    values, pixels = np.arange(256, dtype=np.int64), counts.sum(1)
    mean, mean_square = counts @ values / pixels / 255, counts @ values**2 / pixels / 255**2
    return mean.tolist(), np.sqrt(np.maximum(mean_square - mean**2, (1 / 255) ** 2)).tolist()
