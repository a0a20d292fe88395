"""Datasets as uint8 tensors in memory."""

from singleshot.data.digits import DigitSplit, load_digits, split_digits
from singleshot.data.images import Dataset, Images

__all__ = ["Dataset", "DigitSplit", "Images", "load_digits", "split_digits"]
