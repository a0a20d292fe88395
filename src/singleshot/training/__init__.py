"""Training runs: recipes, the training loop, checkpoints and inference."""

import lazy_loader

# Names are listed in __init__.pyi and imported on first use, so that the command line starts without torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
