from .cache import UnreadableImagesWarning as UnreadableImagesWarning
from .decoding import UnreadableImageError as UnreadableImageError, decode_image as decode_image
from .formats.digits import DigitSplit as DigitSplit, load_digits as load_digits, split_digits as split_digits
from .images import Dataset as Dataset, Images as Images
from .registry import list_datasets as list_datasets, load_dataset as load_dataset
