import torch

from crowds import crowd
from dissensus import metrics
from dissensus.models import Smallcnn, new_model
from dissensus.training import evaluate

DATA = crowd(items=23, images=True)


def test_predictions_do_not_depend_on_the_batches_and_leave_the_network_in_eval_mode():
    model = new_model(Smallcnn(width=4, hidden=8), DATA.x, 4, seed=0)
    whole, parts = evaluate.predict(model, DATA.x), evaluate.predict(model, DATA.x, batch=5)
    assert not model.training
    assert not whole.logits.requires_grad
    torch.testing.assert_close(whole.logits, parts.logits)
    torch.testing.assert_close(whole.features, parts.features)


def test_the_numbers_of_a_curve_are_those_of_the_metrics_and_ties_go_to_the_lowest_class():
    log_probs = torch.tensor([[0.4, 0.4, 0.2], [0.1, 0.45, 0.45]], dtype=torch.float64).log()
    people = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]], dtype=torch.float64)
    target = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    labels = torch.tensor([0, 2])
    numbers = evaluate.monitored(log_probs, target, people, labels)
    assert numbers == {
        "loss": float(metrics.soft_nll(log_probs, target).mean()),
        "accuracy": metrics.accuracy(log_probs, labels),
        "kl": float(metrics.kl(log_probs, people).mean()),
    }
    assert numbers["accuracy"] == 0.5
