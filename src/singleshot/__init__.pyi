from .losses import (
    CILoss as CILoss,
)
from .losses import (
    CrossEntropyLoss as CrossEntropyLoss,
)
from .losses import (
    EntropyCILoss as EntropyCILoss,
)
from .losses import (
    LabelSmoothingLoss as LabelSmoothingLoss,
)
from .losses import (
    VWCILoss as VWCILoss,
)
from .losses import (
    ci_loss as ci_loss,
)
from .losses import (
    cross_entropy_loss as cross_entropy_loss,
)
from .losses import (
    entropy_ci_loss as entropy_ci_loss,
)
from .losses import (
    label_smoothing_loss as label_smoothing_loss,
)
from .losses import (
    vwci_loss as vwci_loss,
)
from .metrics import Calibration as Calibration
from .metrics import CalibrationResult as CalibrationResult
from .metrics import VarianceHistogram as VarianceHistogram
from .posthoc import TemperatureScaling as TemperatureScaling
from .report import reliability_diagram as reliability_diagram
from .uncertainty import (
    mutual_information as mutual_information,
)
from .uncertainty import (
    normalized_variance as normalized_variance,
)
from .uncertainty import (
    predictive_covariance as predictive_covariance,
)
from .uncertainty import (
    predictive_entropy as predictive_entropy,
)
from .uncertainty import (
    predictive_mean as predictive_mean,
)
