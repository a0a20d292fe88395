from .figures import (
    plot_coverage as plot_coverage,
    plot_reliability as plot_reliability,
    plot_risk_coverage as plot_risk_coverage,
    plot_variance as plot_variance,
)
from .one_call import ModelEvaluation as ModelEvaluation, evaluate as evaluate, report as report
