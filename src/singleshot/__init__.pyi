__version__: str

from . import (
    data as data,
    evaluation as evaluation,
    export as export,
    grid as grid,
    integrations as integrations,
    losses as losses,
    metrics as metrics,
    models as models,
    paper as paper,
    posthoc as posthoc,
    predictions as predictions,
    reporting as reporting,
    sampling as sampling,
    self_tuning as self_tuning,
    training as training,
    uncertainty as uncertainty,
)
from .evaluation.advice import advise as advise
from .export import export_model as export_model, read_facts as read_facts
from .integrations import SingleShotClassifier as SingleShotClassifier, finetune as finetune
from .losses import (
    AdaFocalLoss as AdaFocalLoss,
    AdaptiveGamma as AdaptiveGamma,
    BrierLoss as BrierLoss,
    CILoss as CILoss,
    CrossEntropyLoss as CrossEntropyLoss,
    DCALoss as DCALoss,
    DualFocalLoss as DualFocalLoss,
    EntropyCILoss as EntropyCILoss,
    FLSDLoss as FLSDLoss,
    FocalLoss as FocalLoss,
    LabelSmoothingLoss as LabelSmoothingLoss,
    MarginSmoothingLoss as MarginSmoothingLoss,
    MDCALoss as MDCALoss,
    MMCELoss as MMCELoss,
    SoftECELoss as SoftECELoss,
    VWCILoss as VWCILoss,
    adafocal_loss as adafocal_loss,
    brier_loss as brier_loss,
    ci_loss as ci_loss,
    create_loss as create_loss,
    cross_entropy_loss as cross_entropy_loss,
    dca_loss as dca_loss,
    dual_focal_loss as dual_focal_loss,
    entropy_ci_loss as entropy_ci_loss,
    flsd_loss as flsd_loss,
    focal_loss as focal_loss,
    gather_batch as gather_batch,
    label_smoothing_loss as label_smoothing_loss,
    list_losses as list_losses,
    margin_smoothing_loss as margin_smoothing_loss,
    mdca_loss as mdca_loss,
    mmce_loss as mmce_loss,
    soft_ece_loss as soft_ece_loss,
    vwci_loss as vwci_loss,
)
from .metrics import (
    Calibration as Calibration,
    CalibrationResult as CalibrationResult,
    Examples as Examples,
    MultiLabelCalibration as MultiLabelCalibration,
    VarianceHistogram as VarianceHistogram,
    adaptive_ece as adaptive_ece,
    bootstrap as bootstrap,
    consistency_test as consistency_test,
    debiased_ece as debiased_ece,
    paired_bootstrap as paired_bootstrap,
    risk_coverage as risk_coverage,
    smooth_ece as smooth_ece,
    threshold_for_accuracy as threshold_for_accuracy,
    wilson_interval as wilson_interval,
)
from .models import create_model as create_model, list_models as list_models
from .posthoc import (
    HistogramBinning as HistogramBinning,
    IsotonicScaling as IsotonicScaling,
    MatrixScaling as MatrixScaling,
    TemperatureScaling as TemperatureScaling,
    VectorScaling as VectorScaling,
    load_scaling as load_scaling,
)
from .predictions import read_predictions as read_predictions, write_predictions as write_predictions
from .reporting import (
    evaluate as evaluate,
    plot_coverage as plot_coverage,
    plot_reliability as plot_reliability,
    plot_risk_coverage as plot_risk_coverage,
    plot_variance as plot_variance,
    report as report,
)
from .sampling import (
    Sampled as Sampled,
    add_noise as add_noise,
    explain as explain,
    remove_noise as remove_noise,
    sample as sample,
    stochastic as stochastic,
)
from .self_tuning import SelfTunedStrength as SelfTunedStrength
from .training import export_run as export_run
from .uncertainty import (
    mutual_information as mutual_information,
    normalized_variance as normalized_variance,
    predictive_covariance as predictive_covariance,
    predictive_entropy as predictive_entropy,
    predictive_mean as predictive_mean,
)
