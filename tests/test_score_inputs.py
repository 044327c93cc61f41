"""`dissensus.score` takes what people have: tensors, arrays, data frames, votes."""

import numpy as np
import pandas as pd
import pytest
import torch

import dissensus
from crowds import crowd
from dissensus.errors import InputError
from dissensus.votes import Votes

VOTES = crowd(items=30, classes=3, votes=6).votes
LOG_PROBS = torch.log_softmax(torch.randn(30, 3, generator=torch.Generator().manual_seed(0)).double(), 1)


def test_every_kind_of_input_gives_the_same_scores():
    soft, counts = torch.from_numpy(VOTES.soft.copy()), torch.from_numpy(VOTES.counts.copy())
    expected = dissensus.score(LOG_PROBS, soft, counts=counts)
    assert dissensus.score(LOG_PROBS.numpy(), VOTES.soft, counts=VOTES.counts) == expected
    assert dissensus.score(pd.DataFrame(LOG_PROBS.numpy()), pd.DataFrame(VOTES.soft), counts=VOTES.counts) == expected
    assert dissensus.score(LOG_PROBS, VOTES) == expected
    assert dissensus.score(LOG_PROBS.numpy().tolist(), VOTES, gold=VOTES.counts.argmax(1))["gold"] == "given"


def test_words_are_no_numbers():
    with pytest.raises(InputError, match="not numbers"):
        dissensus.score(np.array([["a", "b", "c"]] * 30), VOTES)


def test_columns_and_rows_of_data_frames_are_matched_by_name():
    draw = np.random.default_rng(0)
    votes = Votes.from_counts(draw.multinomial(5, [0.2, 0.3, 0.5], 8), classes=["a", "b", "c"])
    frame = pd.DataFrame(np.log(draw.dirichlet(np.ones(3), 8)), columns=["a", "b", "c"])
    expected = dissensus.score(frame.to_numpy(), votes)
    shuffled = frame[["c", "a", "b"]].sample(frac=1, random_state=0)
    assert dissensus.score(shuffled, votes) == expected
    soft = pd.DataFrame(votes.soft, columns=["a", "b", "c"])
    assert dissensus.score(shuffled, soft, counts=votes.counts) == expected
    assert dissensus.score(pd.DataFrame(frame.to_numpy()), votes) == expected  # numbers, in their order
    for names in ([f"z{n}" for n in range(8)], ["x0", *(f"x{n}" for n in range(3, 8)), "new", "other"]):
        named = Votes.from_counts(votes.counts, classes=votes.classes, items=[f"x{n}" for n in range(8)])
        with pytest.raises(InputError, match="of the 8 items"):
            dissensus.score(frame.set_axis(names), named)
    with pytest.raises(InputError, match="the column 'x' is not one of the classes"):
        dissensus.score(frame.rename(columns={"a": "x"}), votes)
