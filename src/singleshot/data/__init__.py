"""Datasets as uint8 tensors in memory."""

from singleshot.data.digits import DigitSplit, Images, load_digits, split_digits

__all__ = ["DigitSplit", "Images", "load_digits", "split_digits"]
