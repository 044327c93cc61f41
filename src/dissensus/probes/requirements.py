"""What a probe needs of a model, or a refusal that names the probe and what the model lacks."""

from __future__ import annotations

from torch import Tensor, nn

from dissensus.errors import InputError
from dissensus.models.heads import LinearHead
from dissensus.models.model import Model
from dissensus.models.predictions import Predictions


def features_of(predictions: Predictions, probe: str) -> Tensor:
    """The penultimate features [N, D]."""
    if predictions.features is None:
        raise _lacking(probe, "penultimate features", "gives none")
    return predictions.features


def head_of(model: Model, probe: str) -> LinearHead:
    """The linear layer that makes logits of penultimate features."""
    if model.head is None:
        raise _lacking(probe, "a linear last layer", "has none")
    return model.head


def last_stage_of(model: Model, probe: str) -> nn.Module:
    """The part with the last activations that still are maps [N, C, h, w]."""
    if model.last_stage is None:
        raise _lacking(probe, "a convolutional stage", "has none")
    return model.last_stage


def _lacking(probe: str, part: str, lack: str) -> InputError:
    return InputError(f"it needs {part}, and this model {lack}", where=probe, hint="Use a model that has it", state="")
