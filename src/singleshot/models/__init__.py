"""Networks."""

from singleshot.models.small_cnn import SmallCNN

__all__ = ["SmallCNN"]
