from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from singleshot.paper.theory import mixture_kl, prior_of_weight_decay, weight_decay_of_prior


def monte_carlo_kl(means: Tensor, mixture: Tensor, sigma: float, prior_std: float, draws: int) -> tuple[float, float]:
    """E_q[log q − log p] from samples of q, with its standard error, for any components."""
    generator = torch.Generator().manual_seed(0)
    component = torch.multinomial(mixture, draws, replacement=True, generator=generator)
    noise = torch.randn(draws, means.shape[1], dtype=means.dtype, generator=generator)
    samples = means[component] + sigma * noise
    dimensions = means.shape[1]

    def log_normal(centre: Tensor, std: float) -> Tensor:
        scaled = (samples - centre) / std
        return -scaled.square().sum(-1) / 2 - dimensions * math.log(std * math.sqrt(2 * math.pi))

    log_q = torch.logsumexp(
        torch.stack([m.log() + log_normal(c, sigma) for m, c in zip(mixture, means, strict=True)]), 0
    )
    ratio = log_q - log_normal(torch.zeros(dimensions, dtype=means.dtype), prior_std)
    return float(ratio.mean()), float(ratio.std() / math.sqrt(draws))


@pytest.mark.parametrize(
    ("dimensions", "sigma", "mixture", "prior_std"),
    [(10, 0.1, (0.5, 0.5), 1.0), (3, 0.3, (0.8, 0.2), 1.0), (50, 0.7, (0.9, 0.1), 2.0), (5, 0.2, (1.0,), 0.5)],
)
def test_mixture_kl_agrees_with_monte_carlo(
    dimensions: int, sigma: float, mixture: tuple[float, ...], prior_std: float
) -> None:
    generator = torch.Generator().manual_seed(1)
    means = torch.randn(len(mixture), dimensions, dtype=torch.float64, generator=generator) * 3
    means[1:] = 0  # the dropped component
    weights = torch.tensor(mixture, dtype=torch.float64)
    estimate, error = monte_carlo_kl(means, weights, sigma, prior_std, draws=200_000)
    value = float(mixture_kl(means, weights, sigma=sigma, prior_std=prior_std))
    assert abs(value - estimate) < 4 * error
    assert error < 0.002 * abs(estimate) + 0.01  # the estimate is precise enough to detect a wrong formula


def test_the_printed_formula_disagrees_with_monte_carlo() -> None:
    """Appendix B prints ½(‖θ‖² + Dσ − log σ − D(1 + log 2π)) − ½ H(e), which is far from the estimate."""
    means, mixture, sigma = torch.zeros(2, 10, dtype=torch.float64), torch.tensor([0.5, 0.5], dtype=torch.float64), 0.1
    means[0] = 2.0
    printed = 0.25 * 40 + (10 * sigma - math.log(sigma) - 10 * (1 + math.log(2 * math.pi))) / 2 - math.log(2) / 2
    estimate, error = monte_carlo_kl(means, mixture, sigma, 1.0, draws=50_000)
    assert abs(float(mixture_kl(means, mixture, sigma=sigma)) - estimate) < 4 * error
    assert abs(printed - estimate) > 10


def test_mixture_kl_is_a_lower_bound_within_the_entropy() -> None:
    mixture = torch.tensor([0.5, 0.5], dtype=torch.float64)
    together = torch.zeros(2, 4, dtype=torch.float64)  # full overlap: the worst case
    estimate, error = monte_carlo_kl(together, mixture, 0.5, 1.0, draws=50_000)
    value = float(mixture_kl(together, mixture, sigma=0.5))
    assert value < estimate
    assert estimate - value == pytest.approx(math.log(2), abs=4 * error + 1e-9)


def test_weight_decay_is_the_gradient_of_the_kl_per_example() -> None:
    survival, examples, prior_std = 0.7, 123, 0.3
    theta = torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    means = torch.stack([theta, torch.zeros_like(theta)])
    mixture = torch.tensor([survival, 1 - survival], dtype=torch.float64)
    penalty = mixture_kl(means, mixture, sigma=0.1, prior_std=prior_std) / examples
    (gradient,) = torch.autograd.grad(penalty, theta)
    decay = weight_decay_of_prior(survival, examples, prior_std)
    torch.testing.assert_close(gradient, decay * theta.detach())
    assert prior_of_weight_decay(decay, survival, examples) == pytest.approx(prior_std, rel=1e-12)

    optimizer = torch.optim.SGD([theta], lr=1.0, weight_decay=decay)
    before = theta.detach().clone()
    theta.grad = torch.zeros_like(theta)
    optimizer.step()
    torch.testing.assert_close(before - theta.detach(), gradient)


@pytest.mark.parametrize("training", [True, False])
def test_dropping_a_residual_block_is_zeroing_its_weights(training: bool) -> None:
    """Appendix A: stochastic depth is noise on the weights and the batch-norm affine of a block."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.branch = nn.Sequential(
                nn.BatchNorm2d(3),
                nn.ReLU(),
                nn.Conv2d(3, 5, 3, padding=1, bias=False),
                nn.BatchNorm2d(5),
                nn.ReLU(),
                nn.Conv2d(5, 3, 3, padding=1, bias=False),
            )

        def forward(self, x: Tensor, alive: float) -> Tensor:
            branch: Tensor = self.branch(x)
            return alive * branch + x

    torch.manual_seed(0)
    block = Block().train(training)
    x = torch.randn(4, 3, 6, 6)
    dropped = block(x, alive=0.0)
    assert not torch.allclose(block(x, alive=1.0), dropped)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.zero_()
    assert torch.equal(block(x, alive=1.0), dropped)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mixture_kl(torch.zeros(2, 3), torch.tensor([1.0]), sigma=1.0), r"got \(2, 3\) and \(1,\)"),
        (lambda: mixture_kl(torch.zeros(2, 3), torch.tensor([0.9, 0.9]), sigma=1.0), "sum to 1"),
        (lambda: mixture_kl(torch.zeros(1, 3), torch.tensor([1.0]), sigma=0.0), "sigma must lie"),
        (lambda: mixture_kl(torch.zeros(1, 3), torch.tensor([1.0]), sigma=math.nan), "sigma must lie"),
        (lambda: prior_of_weight_decay(math.nan, 0.5, 10), "weight_decay must lie"),
        (lambda: weight_decay_of_prior(0.0, 10), r"survival must lie in \(0, 1\]"),
        (lambda: weight_decay_of_prior(0.5, 0), "examples must be a whole number of at least 1"),
        (lambda: weight_decay_of_prior(0.5, 10, prior_std=0), r"prior_std must lie in \(0, inf\)"),
        (lambda: prior_of_weight_decay(0.0, 0.5, 10), r"weight_decay must lie in \(0, inf\)"),
    ],
)
def test_invalid_arguments_are_refused(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=message):
        call()
