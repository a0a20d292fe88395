"""Export of a classifier to an ONNX or torch.export file that runs without singleshot."""

from singleshot.export.exporting import Exported, export_model
from singleshot.export.metadata import read_facts
from singleshot.export.parity import ParityError

__all__ = ["Exported", "ParityError", "export_model", "read_facts"]
