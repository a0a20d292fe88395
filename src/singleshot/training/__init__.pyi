from .presets import preset as preset
from .recipe import Recipe as Recipe
from .run import Run as Run
from .runner import train as train
