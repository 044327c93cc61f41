"""Batches of images: augmentation against its naive twin."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dissensus.datasets.data import to_float
from dissensus.errors import InputError
from dissensus.store import encoding
from dissensus.training.augmentation import CropFlip, Cutout, InTurn, NoAugment
from dissensus.training.recipe import AUGMENTS


def naive(x: Tensor, generator: torch.Generator, padding: int, flip: bool, reflect: bool) -> Tensor:
    """One image after another, with the same draws."""
    top, left = torch.randint(0, 2 * padding + 1, (2, len(x)), generator=generator)
    mirrored = torch.randint(0, 2, (len(x),), generator=generator) if flip else torch.zeros(len(x))
    result = torch.zeros_like(x)
    for i, image in enumerate(x):
        turned = image.flip(2) if mirrored[i] else image
        mode = "reflect" if reflect else "constant"
        framed = torch.nn.functional.pad(turned.double(), (padding,) * 4, mode=mode).to(x.dtype)
        result[i] = framed[:, top[i] : top[i] + x.shape[2], left[i] : left[i] + x.shape[3]]
    return result


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@settings(deadline=None, max_examples=40)
@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 3), st.integers(1, 8), st.integers(1, 8)),
    padding=st.integers(0, 4),
    flip=st.booleans(),
    reflect=st.booleans(),
    dtype=st.sampled_from([torch.uint8, torch.float32, torch.float64]),
)
def test_crop_and_flip_is_what_a_loop_over_images_does(shape, padding, flip, reflect, dtype):
    padding = min(padding, *(side - 1 for side in shape[2:])) if reflect else padding
    x = torch.randint(1, 256, shape, generator=generator(1)).to(dtype)
    before = x.clone()
    fast = CropFlip(padding, flip, reflect)(x, generator())
    assert fast.dtype == dtype
    assert torch.equal(fast, naive(x, generator(), padding, flip, reflect))
    assert torch.equal(x, before)


def test_it_takes_images_in_any_memory_layout():
    x = torch.rand(6, 3, 8, 8, generator=generator())
    tail_of_more = torch.cat([x, x])[6:].to(memory_format=torch.channels_last)
    assert torch.equal(CropFlip(2)(tail_of_more, generator()), CropFlip(2)(x, generator()))


def test_over_many_draws_every_offset_and_both_sides_are_seen_evenly():
    x = torch.arange(1, 10, dtype=torch.float32).view(1, 1, 3, 3).expand(9000, 1, 3, 3)
    kinds = CropFlip(padding=1)(x, generator()).flatten(1).unique(dim=0, return_counts=True)[1]
    assert len(kinds) == 18
    assert int(kinds.min()) > 400
    assert int(kinds.max()) < 600


@pytest.mark.parametrize("member", AUGMENTS.values())
def test_every_member_keeps_shape_and_type_and_goes_through_a_spec(member):
    augment = member()
    x = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8, generator=generator())
    out = augment(x, generator())
    assert (out.shape, out.dtype) == (x.shape, x.dtype)
    assert encoding.decode(encoding.encode(augment), AUGMENTS) == augment


@settings(deadline=None, max_examples=40)
@given(
    shape=st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(1, 8), st.integers(1, 8)),
    size=st.integers(0, 10),
    dtype=st.sampled_from([torch.uint8, torch.float32]),
)
def test_a_cutout_is_what_a_loop_over_images_does(shape, size, dtype):
    x = torch.randint(0, 256, shape, generator=generator(1)).to(dtype)
    before, draws = x.clone(), generator()
    down, across = (torch.randint(0, side, (len(x), 1), generator=draws) for side in shape[2:])
    expected = x.clone()
    for i, image in enumerate(x):
        top, left = int(down[i]) - size // 2, int(across[i]) - size // 2
        for channel, plane in enumerate(image):
            colour = plane.double().mean().to(dtype)
            expected[i, channel, max(0, top) : max(0, top + size), max(0, left) : max(0, left + size)] = colour
    assert torch.equal(Cutout(size)(x, generator()), expected)
    assert torch.equal(x, before)


def test_augmentations_in_turn_draw_one_after_another_from_one_stream():
    x, draws = torch.rand(6, 3, 8, 8, generator=generator(1)), generator()
    by_hand = Cutout(3)(CropFlip(2)(x, draws), draws)
    both = InTurn((CropFlip(2), Cutout(3)))
    assert torch.equal(both(x, generator()), by_hand)
    assert encoding.decode(encoding.encode(both), AUGMENTS) == both


def test_an_image_is_not_reflected_further_than_it_reaches():
    with pytest.raises(InputError, match="3 pixels cannot be reflected 3"):
        CropFlip(3, reflect=True)(torch.rand(2, 1, 3, 8), generator())


def test_no_augmentation_is_none():
    x = torch.rand(4, 5)
    assert NoAugment()(x, generator()) is x


@pytest.mark.parametrize("augment", [CropFlip(), Cutout()])
def test_features_cannot_be_cropped_or_cut(augment):
    with pytest.raises(InputError, match="no_augment"):
        augment(torch.rand(4, 5), generator())


def test_bytes_become_floats_between_0_and_1_and_features_stay_as_they_are():
    x = torch.arange(256).to(torch.uint8)
    assert torch.equal(to_float(x), torch.arange(256) / 255)
    features = torch.randn(3, 4)
    assert to_float(features) is features
    assert int(x[-1]) == 255
