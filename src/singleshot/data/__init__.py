"""Data sets as uint8 tensors, in memory or mapped from a file.

The names are listed in ``__init__.pyi`` and loaded when first used: the command line asks for the names of the data
sets, and must not wait for torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
