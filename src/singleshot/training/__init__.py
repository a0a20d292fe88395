"""From a recipe to a checkpoint one can trust. Names are imported when they are first used: recipes need no torch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
