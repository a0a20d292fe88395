"""Mean and standard deviation of each channel, exactly, and without a copy of the images as floats."""

from __future__ import annotations

import numpy as np

from singleshot.data.decoding import Pixels


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
