"""Files of predictions in common formats: read in chunks, and written."""

from singleshot.predictions.file import Chunk, Predictions
from singleshot.predictions.formats import FORMATS, read_predictions
from singleshot.predictions.writing import write_predictions, write_top_class

__all__ = ["FORMATS", "Chunk", "Predictions", "read_predictions", "write_predictions", "write_top_class"]
