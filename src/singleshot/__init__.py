"""Confidence one can act on, from one forward pass.

The public names are listed in ``__init__.pyi`` and loaded when first used, so that the command line starts without
waiting for torch.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
