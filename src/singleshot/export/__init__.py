"""The single-shot classifier as a file that other programs run: ONNX or torch.export."""

from singleshot.export.facts import read_facts
from singleshot.export.model import Exported, export_model
from singleshot.export.parity import ParityError
from singleshot.export.run import export_run

__all__ = ["Exported", "ParityError", "export_model", "export_run", "read_facts"]
