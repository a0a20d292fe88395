"""Datasets as uint8 tensors, in memory or memory-mapped.

Names are listed in ``__init__.pyi`` and loaded on first use, so that the command line can list datasets without torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
