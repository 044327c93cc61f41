"""Whatever is damaged on disk is read as it was, or refused with a message: the short run of `make bench WHAT=fuzz`."""

import gzip

import pytest

import damage
import damaged_files
import damaged_sets
from dissensus import datasets
from dissensus.errors import InputError
from dissensus.store import records
from dissensus.store.records import Records

KINDS = (*damaged_files.KINDS, *damaged_sets.KINDS)
ATTEMPTS = {"experiment": 50, "records": 40, "ledger": 100, "download": 100, "archive": 100, "model": 150}


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_a_damaged_file_is_refused_or_read_and_nothing_else_happens(kind, tmp_path):
    tally = damage.run([kind()], tmp_path, ATTEMPTS.get(kind.name, 300), seed=1)
    assert not tally.failures, tally.failures[0]
    assert tally.outcomes[kind.name, "refused"] + tally.outcomes[kind.name, "read"] == tally.tried()


def test_a_file_of_records_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "UNPACKED_FREELY", 1 << 20)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(4 << 20)))
    with pytest.raises(InputError, match="it unpacks to more than 1,048,576 bytes"):
        Records(tmp_path / "bomb.gz")


def test_data_are_listed_whatever_became_of_their_files(tmp_path):
    """One damaged file does not hide the other data sets: it counts as nothing, and `load` says what is wrong."""
    sets = damaged_sets.DataSets()
    sets.prepare(tmp_path)
    whole = {status.name: status.sizes for status in datasets.catalogue(tmp_path)}
    for file, (name, _) in sets.files.items():
        with damaged_files.restored(file):
            file.write_bytes(b"\xff\0not this")
            listed = {status.name: status.sizes for status in datasets.catalogue(tmp_path)}
        others = {other: sizes for other, sizes in whole.items() if other != name and not other.startswith("cifar10")}
        assert {other: listed[other] for other in others} == others


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
