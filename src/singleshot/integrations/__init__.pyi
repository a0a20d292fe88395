from .finetuning import Finetuned as Finetuned, finetune as finetune
from .sklearn import SingleShotClassifier as SingleShotClassifier
