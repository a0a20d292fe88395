"""Training runs: recipes, the training loop, checkpoints and inference. Names are imported lazily."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
