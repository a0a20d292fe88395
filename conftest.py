"""What the tests and the examples in docstrings can rely on."""

from __future__ import annotations

import signal
from importlib.util import find_spec

# The example of an adapter runs where its library is installed.
LIBRARIES = {"huggingface": "transformers", "skorch": "skorch", "torchmetrics": "torchmetrics"}
collect_ignore = [
    f"src/singleshot/integrations/{name}.py" for name, library in LIBRARIES.items() if not find_spec(library)
]

# A shell without job control starts background processes with interrupts ignored, and their children inherit that: the
# tests that interrupt a command would wait for it in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
