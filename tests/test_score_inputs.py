"""`dissensus.score` takes what people have: tensors, arrays, data frames, votes."""

import numpy as np
import pandas as pd
import pytest
import torch

import dissensus
from crowds import crowd
from dissensus.errors import InputError

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
