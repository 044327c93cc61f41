"""Curvature of a ResNet-20: ours against curvlinops with SciPy, on the same float32 network and items.

One product with the Hessian on 32×32 images; then, after a short training on the digits, the largest eigenvalue (Lanczos
against `eigsh` on their operator, to the same residual) and the trace (Hutch++, which stops by itself, against their
Hutchinson with as many probes as that standard error asks for). Needs `pip install curvlinops-for-pytorch`.
"""

import math
import time

import torch
from curvlinops import HessianLinearOperator
from curvlinops.trace.hutchinson import hutchinson_trace
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import nn

from dissensus import datasets
from dissensus.datasets.data import to_float
from dissensus.labels.delivery import Soft
from dissensus.labels.targets import Empirical
from dissensus.models import ResNet20, new_model
from dissensus.probes.hessian import HessianOperator
from dissensus.probes.hutch_plus_plus import hutch_plus_plus
from dissensus.probes.lanczos import lanczos
from dissensus.training import loop as train
from dissensus.training.optimisers import Sgd
from dissensus.training.schedules import Cosine
from timing import best_of

ITEMS, MICRO_BATCH, PROBES_TIMED = 200, 50, 24
EIGENVALUE_TOLERANCE, TRACE_TOLERANCE = 1e-3, 0.03


def main():
    torch.set_num_threads(1)
    model, x, target = trained()
    one_product()
    eigenvalue(model, x, target)
    trace(model, x, target)


def trained():
    """Two epochs on the digits: outliers in the spectrum, as a trained network has."""
    data = datasets.load("digits")
    rows = torch.arange(1000)
    model = new_model(ResNet20(), data.x[rows], 10, seed=0)
    settings = train.Settings(Sgd(0.1), Cosine(), epochs=2, batch=50)
    labels = Soft().labels(Empirical().target(data, rows, seed=0), 0)
    train.fit(model, data.x[rows], labels, settings, classes=10, seed=0, observe=lambda _epoch, _loss: None)
    held_out = torch.arange(1000, 1000 + ITEMS)
    return model.eval(), data.x[held_out], data.people[held_out].float()


def theirs(model, x, target):
    batches = list(zip(to_float(x).split(MICRO_BATCH), target.split(MICRO_BATCH), strict=True))
    loss = nn.CrossEntropyLoss()
    return HessianLinearOperator(model, loss, list(model.parameters()), batches, check_deterministic=False)


def one_product():
    model = new_model(ResNet20(), torch.zeros(1, 3, 32, 32), 10, seed=0).eval()
    generator = torch.Generator().manual_seed(0)
    x, target = torch.rand(50, 3, 32, 32, generator=generator), torch.softmax(torch.randn(50, 10, generator=generator), 1)
    our, their = HessianOperator(model, x, target), theirs(model, x, target)
    vector = torch.randn(our.size, generator=generator)
    seconds, found = best_of(7, ours=lambda: our(vector), curvlinops=lambda: their @ vector)
    apart = (found["ours"] - found["curvlinops"]).norm() / found["curvlinops"].norm()
    print(
        f"a product, 50 images of 32×32: ours {seconds['ours']:.2f} s | curvlinops {seconds['curvlinops']:.2f} s | "
        f"{seconds['curvlinops'] / seconds['ours']:.2f}x | relative |Δ| {apart:.0e}",
        flush=True,
    )
    assert apart < 1e-4, "not the same Hessian"
    assert seconds["ours"] < seconds["curvlinops"], "slower than curvlinops"


def eigenvalue(model, x, target):
    began = time.perf_counter()
    ours = lanczos(HessianOperator(model, x, target, micro_batch=MICRO_BATCH), seed=0, tolerance=EIGENVALUE_TOLERANCE)
    our_seconds = time.perf_counter() - began

    operator, products = theirs(model, x, target), 0

    def product(vector):
        nonlocal products
        products += 1
        return (operator @ torch.from_numpy(vector)).numpy()

    size = operator.shape[0]
    start = torch.randn(size, generator=torch.Generator().manual_seed(0)).numpy()
    began = time.perf_counter()
    wrapped = LinearOperator((size, size), matvec=product, dtype="float32")
    (value,) = eigsh(wrapped, k=1, which="LA", tol=EIGENVALUE_TOLERANCE, v0=start, return_eigenvectors=False)
    their_seconds = time.perf_counter() - began
    report("largest eigenvalue", ours, our_seconds, float(value), products, their_seconds)
    assert abs(ours.value - float(value)) <= 2 * EIGENVALUE_TOLERANCE * ours.value, "not the same eigenvalue"


def trace(model, x, target):
    began = time.perf_counter()
    ours = hutch_plus_plus(HessianOperator(model, x, target, micro_batch=MICRO_BATCH), seed=0, tolerance=TRACE_TOLERANCE)
    our_seconds = time.perf_counter() - began

    operator = theirs(model, x, target)
    torch.manual_seed(0)
    began = time.perf_counter()
    samples = torch.tensor([float(hutchinson_trace(operator, 1)) for _ in range(PROBES_TIMED)])
    seconds = time.perf_counter() - began
    value, spread = float(samples.mean()), float(samples.std())
    needed = math.ceil((spread / (TRACE_TOLERANCE * ours.value)) ** 2)
    report("trace", ours, our_seconds, value, needed, seconds * needed / PROBES_TIMED)
    error = spread / math.sqrt(PROBES_TIMED)
    print(f"  curvlinops: {PROBES_TIMED} probes timed (± {error:.2f}), scaled to {needed} for {TRACE_TOLERANCE:.0%}")
    assert abs(ours.value - value) <= 4 * math.hypot(ours.error, error), "not the same trace"


def report(what, ours, our_seconds, value, products, seconds):
    print(
        f"{what}: ours {ours.value:.2f} ± {ours.error:.2f}, {ours.products} products, {our_seconds:.1f} s | "
        f"curvlinops {value:.2f}, {products} products, {seconds:.1f} s | {products / ours.products:.1f}x fewer products, "
        f"{seconds / our_seconds:.1f}x | relative |Δ| {abs(ours.value / value - 1):.0e}",
        flush=True,
    )
    assert ours.converged
    assert ours.products < products, "more products than curvlinops"
    assert our_seconds < seconds, "slower than curvlinops"


if __name__ == "__main__":
    main()
