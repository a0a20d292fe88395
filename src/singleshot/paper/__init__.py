"""The reproduction of the paper: published numbers, methods, tables, figures, and its own protocols."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
