"""Calibrated confidence of a PyTorch classifier from one forward pass."""

import lazy_loader

__version__ = "0.2.0"

# Names and subpackages are listed in __init__.pyi and imported on first use: the command line starts without torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
