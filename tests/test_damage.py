"""Whatever is damaged on disk is read as it was, or refused with a message: the short run of `make bench WHAT=fuzz`."""

import pytest

import damage
from damaged_files import KINDS

ATTEMPTS = {"experiment": 50, "records": 40, "ledger": 100, "download": 100, "archive": 100, "model": 150}


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_a_damaged_file_is_refused_or_read_and_nothing_else_happens(kind, tmp_path):
    tally = damage.run([kind()], tmp_path, ATTEMPTS.get(kind.name, 300), seed=1)
    assert not tally.failures, tally.failures[0]
    assert tally.outcomes[kind.name, "refused"] + tally.outcomes[kind.name, "read"] == tally.tried()


def test_the_damage_is_seen_where_reading_breaks():
    class Careless:
        name = "careless"

        def prepare(self, place):
            pass

        def attempt(self, place, throw):
            raise KeyError("a traceback")

    class Patient(Careless):
        def attempt(self, place, throw):
            while True:
                pass

    assert damage.attempt(Careless(), None, "0")[0] == "failed"
    damage_limit, damage.LONGEST = damage.LONGEST, 1
    try:
        assert "it hangs" in damage.attempt(Patient(), None, "0")[1]
    finally:
        damage.LONGEST = damage_limit
