"""Who makes the runs of a grid: processes of this machine, or the workers of a dask cluster."""

from singleshot.grid.engines.engine import Engine, GridWatcher, Outcome
from singleshot.grid.engines.local import LocalEngine

__all__ = ["Engine", "GridWatcher", "LocalEngine", "Outcome"]
