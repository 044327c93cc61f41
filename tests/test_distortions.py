import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dissensus.errors import InputError
from dissensus.training import distortions
from dissensus.training.distortions import DISTORTIONS, Distort, Jitter


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def images(n=3, side=8, channels=3):
    return torch.rand(n, channels, side, side, generator=generator(1))


def of(strength, n=3):
    return torch.full((n, 1, 1, 1), float(strength))


@settings(deadline=None, max_examples=30)
@given(
    shape=st.tuples(st.integers(0, 9), st.sampled_from([1, 3]), st.integers(2, 9), st.integers(2, 9)),
    byte=st.booleans(),
    augment=st.sampled_from([Distort(), Jitter(), Jitter(0.9, 0.9)]),
)
def test_any_batch_keeps_its_shape_type_and_range_and_is_left_alone_itself(shape, byte, augment):
    x = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator(1))
    x = x if byte else x.float() / 255
    before = x.clone()
    out = augment(x, generator())
    assert (out.shape, out.dtype) == (x.shape, x.dtype)
    assert byte or out.numel() == 0 or (float(out.min()) >= 0 and float(out.max()) <= 1)
    assert torch.equal(x, before)
    assert torch.equal(out, augment(x, generator()))


@pytest.mark.parametrize("distortion", [one for one in DISTORTIONS if one is not distortions._stretched])
def test_no_strength_is_no_distortion(distortion):
    x = torch.randint(0, 256, (3, 3, 8, 8), generator=generator()).float() / 255
    torch.testing.assert_close(distortion(x, of(0)), x)


@pytest.mark.parametrize("distortion", [one for one in DISTORTIONS if one is not distortions._left_alone])
def test_full_strength_changes_the_image(distortion):
    x = 0.2 + 0.6 * images()
    assert float((distortion(x, of(-0.9)) - x).abs().mean()) > 0.01


def test_every_kind_is_drawn_and_images_do_not_meet():
    x = images(200)
    out = Distort()(x, generator())
    kinds = torch.randint(0, len(DISTORTIONS), (200,), generator=generator())
    assert len(kinds.unique()) == len(DISTORTIONS)
    alone = kinds == DISTORTIONS.index(distortions._left_alone)
    assert torch.equal(out[alone], x[alone])
    assert not torch.equal(out[~alone], x[~alone])


def test_a_rotation_turns_about_the_middle():
    x = torch.zeros(1, 1, 9, 9)
    x[0, 0, 4, 8] = 1  # to the right of the middle
    turned = distortions._rotated(x, of(1, n=1))[0, 0]
    row, column = divmod(int(turned.argmax()), 9)
    assert (abs(row - 4), column) in {(2, 7), (2, 8)}  # 30 degrees: 3.46 to the right, 2 up or down
    other = distortions._rotated(x, of(-1, n=1))[0, 0]
    torch.testing.assert_close(other, turned.flip(0))


def test_colours_go_to_grey_and_contrast_to_the_mean():
    x = images()
    grey = (x * torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(1, keepdim=True)
    torch.testing.assert_close(distortions._coloured(x, of(-1 / 0.9)), grey.expand_as(x))
    flat = grey.mean((2, 3), keepdim=True).expand_as(x)
    torch.testing.assert_close(distortions._contrasted(x, of(-1 / 0.9)), flat)


def test_posterised_solarised_and_stretched_by_hand():
    x = torch.tensor([0.0, 100, 200, 255]).view(1, 1, 2, 2) / 255
    one = of(1, n=1)
    assert (distortions._posterised(x, one) * 255).flatten().tolist() == [0, 96, 192, 240]
    half = distortions._solarised(x, one / 2) * 255
    torch.testing.assert_close(half.flatten(), torch.tensor([0.0, 100, 55, 0]))
    narrow = x / 2 + 0.25
    torch.testing.assert_close(distortions._stretched(narrow, one), x)
    assert torch.equal(distortions._stretched(torch.full_like(x, 0.3), one), torch.full_like(x, 0.3))


def test_jitter_scales_an_image_and_then_its_distance_from_its_mean_grey_each_by_its_own_draw():
    x = 0.4 + 0.2 * images()  # so that nothing is cut at 0 or 1
    lighter, starker = (2 * torch.rand(3, 1, 1, 1, generator=draw) - 1 for draw in [generator()] for _ in range(2))
    bright = x * (1 + 0.3 * lighter)
    middle = (bright * torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(1, keepdim=True).mean((2, 3), keepdim=True)
    by_hand = middle + (bright - middle) * (1 + 0.1 * starker)
    torch.testing.assert_close(Jitter(brightness=0.3, contrast=0.1)(x, generator()), by_hand)
    assert torch.equal(Jitter(0, 0)(x, generator()), x)


@pytest.mark.parametrize("augment", [Distort(), Jitter()])
def test_features_are_refused(augment):
    with pytest.raises(InputError, match="for images"):
        augment(torch.rand(4, 10), generator())
