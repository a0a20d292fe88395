__version__: str

from . import theory as theory
from .losses import (
    CILoss as CILoss,
    CrossEntropyLoss as CrossEntropyLoss,
    EntropyCILoss as EntropyCILoss,
    LabelSmoothingLoss as LabelSmoothingLoss,
    VWCILoss as VWCILoss,
    ci_loss as ci_loss,
    cross_entropy_loss as cross_entropy_loss,
    entropy_ci_loss as entropy_ci_loss,
    label_smoothing_loss as label_smoothing_loss,
    vwci_loss as vwci_loss,
)
from .metrics import (
    Calibration as Calibration,
    CalibrationResult as CalibrationResult,
    VarianceHistogram as VarianceHistogram,
)
from .models import create_model as create_model, list_models as list_models
from .posthoc import TemperatureScaling as TemperatureScaling
from .report import reliability_diagram as reliability_diagram
from .sampling import explain as explain, sample as sample, stochastic as stochastic
from .uncertainty import (
    mutual_information as mutual_information,
    normalized_variance as normalized_variance,
    predictive_covariance as predictive_covariance,
    predictive_entropy as predictive_entropy,
    predictive_mean as predictive_mean,
)
