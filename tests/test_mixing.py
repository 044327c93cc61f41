import numpy as np
import pytest
import torch

from dissensus.errors import InputError
from dissensus.labels.mixing import MIXINGS, Cutmix, Mixup, Unmixed

X = torch.rand(16, 3, 8, 8, generator=torch.Generator().manual_seed(0))
HARD = torch.arange(16) % 5
SOFT = torch.rand(16, 5, generator=torch.Generator().manual_seed(1)).softmax(1)


def draw(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("labels", [HARD, SOFT], ids=["hard", "soft"])
@pytest.mark.parametrize("mixing", [Mixup(), Mixup(0.2), Cutmix(), Cutmix(0.3)])
def test_mixing_conserves_each_pixel_place_and_each_class_over_the_batch(mixing, labels):
    soft = SOFT if labels is SOFT else torch.nn.functional.one_hot(HARD, 5).float()
    for seed in range(10):
        x, y = mixing(X, labels, 5, draw(seed))
        assert torch.allclose(x.sum(0), X.sum(0), atol=1e-4)
        assert torch.allclose(y.sum(0), soft.sum(0), atol=1e-4)


def test_cutmix_weighs_labels_by_the_area_that_each_image_kept():
    for seed in range(20):
        marks = torch.arange(16.0)[:, None, None, None].expand(16, 1, 8, 8)
        x, y = Cutmix()(marks, torch.arange(16), 16, draw(seed))
        kept = (x == marks).float().mean((1, 2, 3))
        moved = y.argmax(1) != torch.arange(16)
        own = y.gather(1, torch.arange(16)[:, None])[:, 0]
        assert torch.allclose(own, kept, atol=1e-6)
        assert ((own < 0.5) >= moved).all()


def authors_rectangle(size, beta, centre_x, centre_y):
    """`rand_bbox` of the authors' code (clovaai/CutMix-PyTorch), with its draws as arguments."""
    W, H = size[2], size[3]
    cut_rat = np.sqrt(1.0 - beta)
    cut_w, cut_h = int(W * cut_rat), int(H * cut_rat)
    bbx1, bby1 = np.clip(centre_x - cut_w // 2, 0, W), np.clip(centre_y - cut_h // 2, 0, H)
    bbx2, bby2 = np.clip(centre_x + cut_w // 2, 0, W), np.clip(centre_y + cut_h // 2, 0, H)
    return bbx1, bby1, bbx2, bby2


def test_the_rectangle_of_cutmix_is_that_of_the_authors():
    for seed in range(50):
        marks = torch.arange(16.0)[:, None, None, None].expand(16, 1, 9, 7)
        x, y = Cutmix()(marks, torch.arange(16), 16, draw(seed))
        drawn = draw(seed)
        beta, centres = drawn.beta(1, 1), (drawn.integers(9), drawn.integers(7))
        bbx1, bby1, bbx2, bby2 = authors_rectangle(marks.shape, beta, *centres)
        partner = torch.from_numpy(drawn.permutation(16))
        expected = marks.clone()
        expected[:, :, bbx1:bbx2, bby1:bby2] = marks[partner, :, bbx1:bbx2, bby1:bby2]
        assert torch.equal(x, expected)
        lam = 1 - (bbx2 - bbx1) * (bby2 - bby1) / 63
        labels = lam * torch.eye(16) + (1 - lam) * torch.eye(16)[partner]
        torch.testing.assert_close(y, labels)


def test_mixup_is_the_same_blend_for_inputs_and_labels():
    marks = torch.eye(16)
    x, y = Mixup()(marks, torch.arange(16), 16, draw(3))
    assert torch.allclose(x, y)


def test_mixing_is_a_pure_function_of_its_draw():
    for mixing in MIXINGS.values():
        one, two = mixing()(X, HARD, 5, draw(4)), mixing()(X, HARD, 5, draw(4))
        assert torch.equal(one[0], two[0])
        assert torch.equal(one[1], two[1])


def test_unmixed_hands_the_batch_through_untouched():
    x, y = Unmixed()(X, HARD, 5, draw())
    assert x is X
    assert y is HARD


def test_cutmix_on_features_is_refused_and_mixup_named():
    with pytest.raises(InputError, match="`mixup`"):
        Cutmix()(torch.rand(4, 7), HARD[:4], 5, draw())
