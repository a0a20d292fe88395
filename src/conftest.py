"""The examples in the docstrings of an adapter run where its library is installed."""

from importlib.util import find_spec

LIBRARIES = {"huggingface": "transformers", "skorch": "skorch", "torchmetrics": "torchmetrics"}
collect_ignore = [f"singleshot/integrations/{name}.py" for name, library in LIBRARIES.items() if not find_spec(library)]
