"""The shape of the loss around a trained model: sharpness (003, tables 4 and 6), barriers (figure 11), noise (figure 7).

The Hessian is over all trainable parameters, of the mean cross-entropy to the people on the items given, without weight
decay, in eval mode (batch-norm statistics frozen), in the model's own precision. Nothing here changes the model it is
given: it works on a copy.

`EIGENVALUES` and `TRACES` are the estimators by name. Each stops at a tolerance, says how far off it may be, and reports
to `progress` after every product with the Hessian, which is where all the time goes.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jvp, vmap
from torch.nn.functional import cross_entropy, normalize

from dissensus import random
from dissensus.datasets.data import to_float
from dissensus.errors import InputError
from dissensus.metrics.checks import checked_probs

FEWEST_PROBES = 16  # a standard error from fewer is too often small by luck


@dataclass(frozen=True)
class Estimate:
    """A number, how far off it may be, and how many products with the Hessian it took.

    `error` is of the value's own unit. Of an eigenvalue it is the residual ‖Hv − λv‖: some eigenvalue is that near. Of a
    trace it is one standard error. `converged` is whether the tolerance was met.
    """

    value: float
    error: float
    products: int
    converged: bool


Progress = Callable[[Estimate], object]


class Symmetric(Protocol):
    """What the estimators need of a symmetric matrix: to multiply it with a vector [size]."""

    size: int
    dtype: torch.dtype
    device: torch.device

    def __call__(self, vector: Tensor) -> Tensor:
        """The product [size]."""
        ...


class Hessian:
    """Of the mean cross-entropy to `target` [N, K] on `x` [N, …], as a function from vectors [size] to vectors [size].

    A product goes through the items in micro-batches, so memory is bounded by `micro_batch` and the size of the model.
    It is the gradient of a directional derivative (reverse over forward). On ResNet-20 with 32×32 images, channels-last,
    one thread, that takes 0.85 of the time of forward over reverse and 0.77 of that of double backward.
    """

    def __init__(self, model: nn.Module, x: Tensor, target: Tensor, *, micro_batch: int = 50) -> None:
        if len(x) != len(target):
            raise InputError(f"{len(x)} inputs but {len(target)} targets", where="Hessian", state="")
        self._loss = _SoftCrossEntropy(copy.deepcopy(model).eval())
        if x.ndim == 4:
            self._loss.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._parameters = {name: p.detach() for name, p in self._loss.named_parameters() if p.requires_grad}
        self._loss.requires_grad_(False)
        self._sizes = [p.numel() for p in self._parameters.values()]
        self.size = sum(self._sizes)
        if self.size == 0:
            raise InputError("the model has no trainable parameters", where="Hessian", state="")
        first = next(iter(self._parameters.values()))
        self.dtype, self.device = first.dtype, first.device
        _warm_forward_mode()
        self._x, self._target, self._micro_batch = x, checked_probs(target, where="target"), micro_batch

    def __call__(self, vector: Tensor) -> Tensor:
        """The Hessian times a vector over the trainable parameters, in the order of `model.parameters()`."""
        pieces = zip(self._parameters.items(), torch.split(vector, self._sizes), strict=True)
        direction = {name: piece.view(p.shape) for (name, p), piece in pieces}
        product = torch.zeros_like(vector)
        for rows in torch.split(torch.arange(len(self._x)), self._micro_batch):
            inputs = to_float(self._x[rows]).to(self.device, self.dtype)
            target = self._target[rows].to(self.device, self.dtype)
            share = len(rows) / len(self._x)
            product += share * torch.cat([part.reshape(-1) for part in self._on(inputs, target, direction)])
        return product

    def _on(self, inputs: Tensor, target: Tensor, direction: Mapping[str, Tensor]) -> list[Tensor]:
        """The product with one micro-batch's own Hessian, a tensor a parameter."""

        def loss(parameters: dict[str, Tensor]) -> Tensor:
            value: Tensor = functional_call(self._loss, parameters, (inputs, target))
            return value

        def slope(parameters: dict[str, Tensor]) -> Tensor:
            along: Tensor = jvp(loss, (parameters,), (direction,))[1]
            return along

        curvature = grad(slope)(self._parameters)
        return [curvature[name] for name in self._parameters]


class _SoftCrossEntropy(nn.Module):
    """The loss as a module's forward, which is what `functional_call` can call."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(self.model.predict(x).logits, target)  # type: ignore[operator]


@cache
def _warm_forward_mode() -> None:
    """Torch's forward mode calls, once, its own deprecated `torch.jit`: that warning is not the user's to read."""
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)
        forward_ad.make_dual(torch.zeros(()), torch.zeros(()))  # type: ignore[no-untyped-call]


def _unheard(estimate: Estimate) -> None:
    """The progress that nobody watches."""


def power_iteration(
    matrix: Symmetric, *, seed: int, tolerance: float = 1e-3, most: int = 100, progress: Progress = _unheard
) -> Estimate:
    """The eigenvalue of largest magnitude, as 003 and PyHessian find it: stop when it changes by less than `tolerance`.

    That it has stopped changing does not mean that it is near: where two eigenvalues are close, the error (the residual)
    is far above the tolerance. Where the result is negative it is not the largest eigenvalue, and has not converged.
    """
    vector = _direction(matrix, seed, "power_iteration")
    previous = math.inf
    for products in range(1, most + 1):
        image = matrix(vector)
        value = float(vector @ image)
        residual = float((image - value * vector).norm())
        settled = residual == 0 or abs(value - previous) <= tolerance * abs(value)
        estimate = Estimate(value, residual, products, settled and value >= 0)
        progress(estimate)
        if settled:
            break
        previous, vector = value, image / image.norm()
    return estimate


def lanczos(
    matrix: Symmetric,
    *,
    seed: int,
    tolerance: float = 1e-3,
    most: int = 100,
    basis: int = 20,
    progress: Progress = _unheard,
) -> Estimate:
    """The largest eigenvalue (of sign +), by Lanczos with full reorthogonalisation; stop at a residual of `tolerance`·λ.

    Memory is `basis` + 1 vectors: when they are full, the best third is kept (thick restart; Wu & Simon, 2000).
    """
    basis = max(min(basis, matrix.size), 3)
    vectors = torch.zeros(basis + 1, matrix.size, dtype=matrix.dtype, device=matrix.device)
    vectors[0] = _direction(matrix, seed, "lanczos")
    projected = torch.zeros(basis, basis, dtype=torch.float64)  # the matrix, seen from the span of the vectors
    last = 0
    for products in range(1, most + 1):
        image, seen = matrix(vectors[last]), vectors[: last + 1]
        image, coefficients = _orthogonalised(image, seen)
        projected[last, : last + 1] = projected[: last + 1, last] = coefficients.to("cpu", torch.float64)
        beyond = float(image.norm())
        values, combinations = torch.linalg.eigh(projected[: last + 1, : last + 1])
        value, residual = float(values[-1]), beyond * abs(float(combinations[-1, -1]))
        nothing_left = beyond <= torch.finfo(matrix.dtype).eps * float(values.abs().max())
        estimate = Estimate(value, residual, products, nothing_left or residual <= tolerance * abs(value))
        progress(estimate)
        if estimate.converged:
            break
        last += 1
        if last == basis:
            last = basis // 3
            vectors[:last] = combinations[:, -last:].T.to(vectors) @ seen
            projected = torch.zeros_like(projected)
            projected[range(last), range(last)] = values[-last:]
        vectors[last] = image / beyond
    return estimate


def hutchinson(
    matrix: Symmetric, *, seed: int, tolerance: float = 0.02, most: int = 1000, progress: Progress = _unheard
) -> Estimate:
    """The trace as the mean of gᵀHg over random signs g (Hutchinson, 1989), as 003 does; stop at a standard error.

    `tolerance` is relative to the trace. At least 16 probes are taken.
    """

    def probe(index: int) -> float:
        signs = _signs(matrix, seed, "hutchinson", index)
        return float(signs @ matrix(signs))

    return _mean_of_probes(probe, tolerance, most, progress)


def hutch_plus_plus(
    matrix: Symmetric,
    *,
    seed: int,
    tolerance: float = 0.02,
    most: int = 1000,
    rank: int = 30,
    progress: Progress = _unheard,
) -> Estimate:
    """The trace, exact on a subspace of the large eigenvalues and by `hutchinson` on the rest (Meyer et al., 2021).

    The subspace grows, at two products a dimension and to at most `rank` dimensions, which is also the memory, as long as
    a dimension saves more probes than it costs (after Persson, Cortinovis & Kressner, 2022). Where no eigenvalue stands
    out, a few products are lost on finding that out.
    """
    subspace = torch.zeros(rank, matrix.size, dtype=matrix.dtype, device=matrix.device)
    found, inside, products, in_vain = 0, 0.0, 0, 0
    rough: list[float] = []
    while found < rank and products + 2 + FEWEST_PROBES <= most and in_vain < 2:
        signs = _signs(matrix, seed, "hutch_plus_plus", "sketch", found)
        sketch = matrix(signs)
        rough.append(float(signs @ sketch))
        fresh, _ = _orthogonalised(sketch, subspace[:found])
        length = float(fresh.norm())
        products += 1
        if length <= 10 * torch.finfo(matrix.dtype).eps * float(sketch.norm()):
            break  # the subspace is all the matrix has
        fresh /= length
        image = matrix(fresh)
        products += 1
        own = float(fresh @ image)
        # A standard error s needs 2‖R‖²/s² probes, R the matrix outside the subspace: a fall of ‖R‖² by s² saves the two
        # products that this dimension cost.
        outside = float(_orthogonalised(image, subspace[:found])[0].square().sum())
        wanted = tolerance * abs(sum(rough) / len(rough))
        fall = 2 * outside - own**2
        in_vain = 0 if fall > wanted**2 else in_vain + 1
        subspace[found], inside, found = fresh, inside + own, found + 1
        progress(Estimate(sum(rough) / len(rough), _standard_error(rough), products, False))

    def probe(index: int) -> float:
        signs = _signs(matrix, seed, "hutch_plus_plus", "probe", index)
        outer, _ = _orthogonalised(signs, subspace[:found])
        return float(outer @ matrix(outer))

    return _mean_of_probes(probe, tolerance, most, progress, known=inside, products=products)


EIGENVALUES = {"power_iteration": power_iteration, "lanczos": lanczos}
TRACES = {"hutchinson": hutchinson, "hutch_plus_plus": hutch_plus_plus}


def _mean_of_probes(
    probe: Callable[[int], float],
    tolerance: float,
    most: int,
    progress: Progress,
    known: float = 0.0,
    products: int = 0,
) -> Estimate:
    """`known` and the mean of as many probes, a product each, as its standard error asks for."""
    samples: list[float] = []
    estimate = Estimate(known, math.inf, products, False)
    while products + len(samples) < most and not estimate.converged:
        samples.append(probe(len(samples)))
        value, error = known + sum(samples) / len(samples), _standard_error(samples)
        enough = len(samples) >= FEWEST_PROBES and error <= tolerance * abs(value)
        estimate = Estimate(value, error, products + len(samples), enough)
        progress(estimate)
    return estimate


def _standard_error(samples: list[float]) -> float:
    if len(samples) < 2:
        return math.inf
    return float(torch.tensor(samples, dtype=torch.float64).std()) / math.sqrt(len(samples))


def _orthogonalised(vector: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
    """The part of a vector outside an orthonormal basis [k, size], and its coefficients inside [k]."""
    inside = basis @ vector
    vector = vector - inside @ basis
    again = basis @ vector  # what the first pass left in by rounding
    return vector - again @ basis, inside + again


def _direction(matrix: Symmetric, seed: int, method: str) -> Tensor:
    drawn = torch.randn(matrix.size, generator=random.generator(seed, "probe", method), dtype=torch.float64)
    return normalize(drawn, dim=0).to(matrix.device, matrix.dtype)


def _signs(matrix: Symmetric, seed: int, *where: int | str) -> Tensor:
    bits = torch.randint(0, 2, (matrix.size,), generator=random.generator(seed, "probe", *where))
    return bits.mul_(2).sub_(1).to(matrix.device, matrix.dtype)


@dataclass(frozen=True)
class Barrier:
    """How far the loss rises above the straight line between two models' losses, and the losses on the way."""

    height: float
    losses: tuple[float, ...]


def barrier(
    model: nn.Module,
    state_a: Mapping[str, Tensor],
    state_b: Mapping[str, Tensor],
    loss: Callable[[nn.Module], float],
    *,
    points: int = 21,
    reestimate: Tensor | None = None,
    batch: int = 500,
) -> Barrier:
    """The largest L(θ_α) − [(1 − α)·L(θ_0) + α·L(θ_1)] over `points` of the straight line between two sets of weights.

    Batch-norm statistics are interpolated like weights; or, given training inputs `reestimate` [N, …] as they are stored,
    measured anew at every point, the ends among them: the mean over batches of each batch's own moments. `loss` is
    called with a model in eval mode.
    """
    if points < 2:
        raise InputError(f"{points} points are no line", where="barrier", hint="Take both ends at least", state="")
    shapes_a, shapes_b = ({name: one.shape for name, one in state.items()} for state in (state_a, state_b))
    if shapes_a != shapes_b:
        raise InputError("the two sets of weights are of different models", where="barrier", state="")
    between = copy.deepcopy(model).eval()
    alphas = [point / (points - 1) for point in range(points)]
    losses = []
    for alpha in alphas:
        between.load_state_dict({name: _interpolated(state_a[name], state_b[name], alpha) for name in state_a})
        if reestimate is not None:
            _reestimate_batch_norm(between, reestimate, batch)
        losses.append(loss(between))
    line = [(1 - alpha) * losses[0] + alpha * losses[-1] for alpha in alphas]
    return Barrier(max(found - straight for found, straight in zip(losses, line, strict=True)), tuple(losses))


def _interpolated(a: Tensor, b: Tensor, alpha: float) -> Tensor:
    return torch.lerp(a, b, alpha) if a.is_floating_point() else a  # what is counted is not interpolated


@torch.no_grad()
def _reestimate_batch_norm(model: nn.Module, x: Tensor, batch: int) -> None:
    norms = [part for part in model.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean over batches, in place of a moving one
        norm.train()
    device = next(model.parameters()).device
    for part in torch.tensor_split(x, math.ceil(len(x) / batch)):  # of equal size, since each weighs the same
        model.predict(to_float(part).to(device))  # type: ignore[operator]
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()


def last_layer_gradient_variance(target: Tensor, features: Tensor, *, bias: bool = True, scale: float = 1.0) -> Tensor:
    """The noise that one sampled label puts on the last layer's gradient, for each item, float64 [N].

    For labels drawn from `target` [N, K] and penultimate features h [N, D], the trace of the covariance of the gradient
    by weights and bias is (1 − ‖p‖²)(1 + ‖h‖²), whatever the model predicts (003, equation 7); without the 1 + where
    there is no bias, and times `scale`² where the layer's output is multiplied by that. It grows with disagreement by
    construction, so its correlation with vote entropy is no finding about training.

    >>> last_layer_gradient_variance(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([[3.0], [3.0]])).tolist()
    [5.0, 0.0]
    """
    p, h = _items_with_features(target, features)
    return scale**2 * (1 - p.square().sum(1)) * (h.square().sum(1) + (1 if bias else 0))


def sampled_gradient_variance(head: nn.Module, target: Tensor, features: Tensor, *, draws: int, seed: int) -> Tensor:
    """The same by experiment, float64 [N]: `draws` labels an item, and the spread of the gradients that autograd gives.

    `head` turns features into logits, and may be any module: this is what `last_layer_gradient_variance` is checked by.
    """
    p, h = _items_with_features(target, features)
    fixed = copy.deepcopy(head).to("cpu", torch.float64)
    parameters = {name: one.detach() for name, one in fixed.named_parameters()}

    def loss(values: dict[str, Tensor], feature: Tensor, label: Tensor) -> Tensor:
        logits: Tensor = functional_call(fixed, values, (feature[None],))
        return cross_entropy(logits, label[None])

    gradient = vmap(grad(loss), (None, None, 0))
    labels = torch.arange(p.shape[1])
    counts = torch.from_numpy(random.numpy_generator(seed, "probe", "labels").multinomial(draws, p.numpy())).double()
    found = []
    for feature, times in zip(h, counts, strict=True):
        of_label = torch.cat([part.flatten(1) for part in gradient(parameters, feature, labels).values()], 1)
        mean = times @ of_label / draws
        found.append(times @ (of_label - mean).square().sum(1) / (draws - 1))
    return torch.stack(found)


def _items_with_features(target: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
    p, h = checked_probs(target, where="target"), features.detach().to("cpu", torch.float64)
    if h.ndim != 2 or len(h) != len(p):
        raise InputError(f"features {list(h.shape)} are not [{len(p)} items, width]", where="features", state="")
    return p, h
