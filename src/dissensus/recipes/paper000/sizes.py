"""The architectures of "Do Soft Labels Enhance Neural Network Training?" (000) and their numbers of parameters."""

from __future__ import annotations

from dissensus.engine.measures import ModelSize
from dissensus.experiments.description import Experiment, ValueTable
from dissensus.experiments.plan import Measurement, Node
from dissensus.experiments.values import Measured
from dissensus.models import ResNet20
from dissensus.recipes.paper000.blocks import BASIC, DUQ, SNGP, WITH_AUG, Seeds, architectures
from dissensus.recipes.printed import attach, printed_numbers

NAMES = {"ResNet-20": BASIC, "+ SNGP": SNGP, "+ DUQ": DUQ, "+ dropout": WITH_AUG}
COLUMNS = {
    "parameters": Measured("parameters"),
    "trained": Measured("trained"),
    "FLOPs of a prediction": Measured("prediction_flops"),
    "FLOPs of a loss": Measured("loss_flops"),
}


def parameters(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:  # noqa: ARG001 - nothing is drawn
    """The networks at the document's size, at every scale."""
    models = architectures(ResNet20())
    table: ValueTable[Node] = ValueTable(
        key="parameters",
        title="Parameters",
        cells={name: {"": {"": Measurement(ModelSize(models[block]))}} for name, block in NAMES.items()},
        columns=COLUMNS,
        note="SNGP's fixed random features are counted with its parameters, and DUQ's network keeps the trunk's own "
        "head, unused, beside its embeddings: so the counts are the document's.",
    )
    table, apart = attach(table, printed_numbers("000", "parameters"))
    return Experiment(
        key="000/parameters",
        title="Four networks",
        question="How large are the networks that are compared?",
        scale=scale,
        exhibits=(table,),
        apart=apart,
    )
