from .presets import preset as preset
from .recipe import Recipe as Recipe
from .run import Run as Run
from .train import train as train
