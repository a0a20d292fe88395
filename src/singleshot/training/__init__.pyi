from .inference import export_run as export_run
from .recipe import Recipe as Recipe
from .recipe_file import preset as preset
from .run import Run as Run
from .trainer import train as train
