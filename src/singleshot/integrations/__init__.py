"""Thin adapters to other libraries' trainers, estimators and metrics, and the finetuning of a trained model."""

import lazy_loader

# Each adapter needs its own library: import it by its module, such as singleshot.integrations.huggingface.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
