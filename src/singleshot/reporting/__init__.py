"""Figures of calibration results, the HTML report page, and the evaluation of a model in one call."""

import lazy_loader

# A figure does not need what the page needs.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
