"""Who makes the runs of a grid: processes of this machine, or the workers of a dask cluster."""

from singleshot.experiments.engines.engine import Engine, GridWatcher, Outcome
from singleshot.experiments.engines.local import LocalEngine

__all__ = ["Engine", "GridWatcher", "LocalEngine", "Outcome"]
