"""What every plain classifier shares: normalise, body, head; a loss and predictions. Composed, not inherited."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dissensus.models.heads import LinearHead
from dissensus.models.model import Model
from dissensus.models.normalise import Normalise
from dissensus.models.predictions import Predictions


class Classifier(Model):
    """`body` turns normalised inputs into penultimate features [B, D], `head` those into logits [B, K].

    `last_stage` is a part of `body`.

    A model needs `loss` and `predict`; a kind of model that also needs them may have `start_epoch()` and
    `after_step(x, target)`, which the training loop calls where they exist, and `prepare(x)`, which is called once with
    the training inputs as they are stored, before anything else.
    """

    head: LinearHead

    def __init__(
        self, normalise: Normalise, body: nn.Module, head: LinearHead, last_stage: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.normalise, self.body, self.head = normalise, body, head
        self._last_stage = (last_stage,)  # in a tuple, or its weights would be registered twice

    @property
    def last_stage(self) -> nn.Module | None:
        """As it was given."""
        return self._last_stage[0]

    def forward(self, x: Tensor) -> Tensor:
        """Logits [B, K] of float inputs: images in [0, 1], or features in their own units."""
        logits: Tensor = self.head(self.body(self.normalise(x)))
        return logits

    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        """Mean cross-entropy to classes, int64 [B] (the faster index kernel), or to distributions, float [B, K]."""
        return cross_entropy(self(x), target)

    def predict(self, x: Tensor) -> Predictions:
        """Logits and penultimate features, in the module's present mode and differentiable in x."""
        features = self.body(self.normalise(x))
        return Predictions(self.head(features), features)
