"""From an image file, or from pixels of another size, to pixels of the size that a network takes."""

from __future__ import annotations

import errno
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL.Image import Image


Pixels = npt.NDArray[np.uint8]

EXTENSIONS = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})

# Only these are tried, whatever a file calls itself: others are rare, and some start outside programs.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ELOOP}


class UnreadableImageError(ValueError):
    """Names a file that cannot be taken as an image, and says why."""


def decode_image(path: Path, size: int, channels: int) -> Pixels:
    """One image file as pixels (channels, size, size): the largest square in its middle, resized.

    One channel gives grey, three give RGB. The first frame counts, the camera's orientation is respected, and what is
    transparent shows white.
    """
    import PIL.Image

    if path.exists() and not path.is_file():  # a named pipe would be waited for
        raise UnreadableImageError(f"{path} cannot be read: it is no file")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd metadata is no reason to complain
        warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)
        try:
            with PIL.Image.open(path, formats=_FORMATS) as image:
                # A JPEG can be read at a half, a quarter or an eighth; four times the wanted size loses nothing.
                image.draft(None, (4 * size, 4 * size))
                return _planes(_central_square(_eight_bit(image, "L" if channels == 1 else "RGB"), size))
        except PIL.UnidentifiedImageError:
            raise UnreadableImageError(f"{path} is no image that can be read (PNG, JPEG, BMP, GIF, ...)") from None
        except (PIL.Image.DecompressionBombWarning, PIL.Image.DecompressionBombError):
            raise UnreadableImageError(
                f"{path} has more pixels than the {PIL.Image.MAX_IMAGE_PIXELS:,} that are taken as safe to decode"
            ) from None
        except OSError as error:
            if error.errno is not None and error.errno not in _NOT_THERE:
                raise  # the disk fails, not the image
            raise UnreadableImageError(f"{path} cannot be read: {error.strerror or error}") from None
        except Exception as error:  # a damaged file can make a decoder fail in any way
            raise UnreadableImageError(f"{path} is damaged: {error or type(error).__name__}") from None


def resize_images(images: Pixels, size: int) -> Pixels:
    """Images (N, C, H, W) at another size; those that have it already are returned as they are."""
    if images.shape[2:] == (size, size):
        return images
    import PIL.Image

    resized = np.empty((*images.shape[:2], size, size), np.uint8)
    for image, target in zip(images, resized, strict=True):
        for channel, plane in enumerate(image):
            target[channel] = np.asarray(_central_square(PIL.Image.fromarray(plane), size))
    return resized


def _eight_bit(image: Image, mode: str) -> Image:
    """The upright image in this mode, on white where it is transparent."""
    import PIL.Image
    import PIL.ImageOps

    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        # Sixteen bits; Pillow's own conversion would cut off all above 255 instead of scaling.
        image = PIL.Image.fromarray((np.asarray(image).astype(np.int32) >> 8).clip(0, 255).astype(np.uint8))
    elif image.mode in ("I", "F"):
        raise ValueError("its pixels are 32 bits wide, of no known range; save it with 8 bits per channel")
    image = PIL.ImageOps.exif_transpose(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = PIL.Image.alpha_composite(PIL.Image.new("RGBA", image.size, "white"), image)
    return image.convert(mode)


def _central_square(image: Image, size: int) -> Image:
    from PIL.Image import Resampling

    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    # When it makes an image smaller, Pillow widens the filter with the step: nothing is skipped, nothing aliases.
    return image.resize((size, size), Resampling.BICUBIC, box=(left, top, left + side, top + side))


def _planes(image: Image) -> Pixels:
    pixels = np.asarray(image, np.uint8)
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


class PixelCounts:
    """How often each of the 256 values occurs in each channel; all that the mean and the deviation need.

    >>> counts = PixelCounts(channels=1)
    >>> counts.add(np.array([[[[0, 255]]]], np.uint8))
    >>> counts.mean(), counts.std()
    ((0.5,), (0.5,))
    """

    def __init__(self, channels: int) -> None:
        self.counts = np.zeros((channels, 256), np.int64)

    def add(self, images: Pixels) -> None:
        """Count images (N, C, H, W)."""
        for channel in range(len(self.counts)):
            self.counts[channel] += np.bincount(images[:, channel].reshape(-1), minlength=256)

    def mean(self) -> tuple[float, ...]:
        """Of each channel, pixels taken as 0 to 1."""
        return tuple(float(total) for total in self._moment(1))

    def std(self) -> tuple[float, ...]:
        """Of each channel; at least one grey level, so that images without contrast can be divided by it."""
        variance = self._moment(2) - self._moment(1) ** 2
        return tuple(float(deviation) for deviation in np.sqrt(np.maximum(variance, (1 / 255) ** 2)))

    def _moment(self, power: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        # Whole numbers until the last step: 64 bits hold the sum of squares of 10¹⁴ pixels.
        totals = self.counts @ np.arange(256, dtype=np.int64) ** power
        return np.asarray(totals / self.counts.sum(1) / 255**power, np.float64)
