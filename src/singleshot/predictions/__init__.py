"""Files of predictions: reading them a piece at a time, in the formats people have, and writing them."""

from singleshot.predictions.predictions import Chunk, Predictions
from singleshot.predictions.reading import FORMATS, read_predictions
from singleshot.predictions.writing import write_predictions

__all__ = ["FORMATS", "Chunk", "Predictions", "read_predictions", "write_predictions"]
