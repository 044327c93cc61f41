"""Votes of trials with attention checks: who passed, how fast people were, and what `clean` leaves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dissensus.cli import cli
from dissensus.errors import InputError
from dissensus.votes import read_votes
from dissensus.votes.exports import read_export
from dissensus.votes.tables import open_table
from dissensus.votes.trials import Cleaning, read_trials

HEADER = (
    "annotator_id,trial_index,is_attn_check,true_category,chosen_category,true_label,chosen_label,correct_guess,"
    "cifar10_test_test_idx,image_filename,subcategory,reaction_time,time_elapsed"
)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CHECKS = {0: 10, 1: 8, 2: 7, 3: 0}
"""Attention checks that each annotator gets right, of ten."""


def write(path: Path, images: int = 20) -> Path:
    """Each annotator labels every image, rightly, but the last image wrongly, in 100 ms times the annotator plus one."""
    lines, trial = [HEADER], 0
    for who, right in CHECKS.items():
        for image in reversed(range(images)):
            chosen = (image + (image == images - 1)) % 10
            guess = int(chosen == image % 10)
            words = f"{CLASSES[image % 10]},{CLASSES[chosen]},{image % 10},{chosen},{guess},{image}"
            lines.append(f'{who},{trial},0,{words},"a, {image}.png",x,{100 * (who + 1)},{trial}')
        for check in range(10):
            chosen = 3 if check < right else 5
            lines.append(
                f"{who},{trial},1,cat,{CLASSES[chosen]},3,{chosen},{int(check < right)},-99999,c.png,x,50,{trial}"
            )
    path.write_text("\n".join(lines) + "\n")
    return path


def test_those_who_pass_fewer_than_three_quarters_of_their_checks_are_left_out(tmp_path):
    trials = read_trials(open_table(write(tmp_path / "cifar10h-raw.csv")))
    assert trials.passed.tolist() == [1.0, 0.8, 0.7, 0.0]
    sifted = trials.sift(Cleaning())
    assert set(np.array(trials.people)[trials.annotator[sifted.kept]]) == {"0", "1"}
    assert list(sifted.removed.values()) == [40, 40]
    assert "2 of 4 annotators" in list(sifted.removed)[1]
    assert int(trials.sift(Cleaning(passing=0.7)).kept.sum()) == 60, "seven of ten is not below 70%"
    assert int(trials.sift(Cleaning(passing=0.0)).kept.sum()) == 80


def test_reaction_times_can_be_bounded_and_one_that_was_not_measured_is_kept(tmp_path):
    path = write(tmp_path / "raw.csv")
    path.write_text(path.read_text().replace(",100,0\n", ",-20,0\n", 1))
    trials = read_trials(open_table(path))
    sifted = trials.sift(Cleaning(passing=0.0, fastest=150, slowest=350))
    assert list(sifted.removed.values()) == [40, 0, 19, 20]
    assert any("1 of the votes kept have no reaction time" in note for note in sifted.notes)
    assert any("median 200 ms" in note or "median 250 ms" in note for note in sifted.notes)


def test_counts_after_cleaning_are_in_the_order_of_the_images(tmp_path, capsys):
    raw = write(tmp_path / "cifar10h-raw.csv")
    cli(["clean", str(raw), str(tmp_path / "counts.npy")], standalone_mode=False)
    counts = np.load(tmp_path / "counts.npy")
    expected = np.zeros((20, 10), int)
    expected[np.arange(20), [*(np.arange(19) % 10), 0]] = 2
    assert np.array_equal(counts, expected)
    said = capsys.readouterr()
    assert "40 votes on 20 items, 2 to 2 per item" in said.out
    assert "attention checks (40)" in said.err
    assert "votes of 2 of 4 annotators with less than 75% of their attention checks right (40)" in said.err


def test_clean_votes_say_who_voted_and_are_what_every_command_reads_by_default(tmp_path, capsys):
    raw = write(tmp_path / "cifar10h-raw.csv")
    cli(["clean", str(raw), str(tmp_path / "votes.csv"), "--json"], standalone_mode=False)
    document = json.loads(capsys.readouterr().out)
    assert (document["votes"], document["annotators"]) == (40, 2)
    again, direct = read_votes(tmp_path / "votes.csv"), read_votes(raw)
    assert again.annotators == direct.annotators == ("0", "1")
    assert np.array_equal(again.counts, direct.counts)
    assert again.classes == CLASSES
    with pytest.raises(InputError, match="the file exists"):
        cli(["clean", str(raw), str(tmp_path / "votes.csv")], standalone_mode=False)
    cli(["clean", str(raw), str(tmp_path / "votes.csv"), "--force", "--passing", "0"], standalone_mode=False)
    assert read_votes(tmp_path / "votes.csv").n_votes == 80


def test_a_file_that_has_no_attention_checks_cannot_be_cleaned(tmp_path):
    (tmp_path / "votes.csv").write_text("item,annotator,label\na,x,cat\n")
    with pytest.raises(InputError, match="not the layout of trials of CIFAR-10H"):
        cli(["clean", str(tmp_path / "votes.csv"), str(tmp_path / "out.csv")], standalone_mode=False)
    (tmp_path / "crowd.tsv").write_text("task\tworker\tlabel\na\tx\tcat\nb\ty\tdog\n")
    with pytest.raises(InputError, match="no attention checks to clean by"):
        read_export(tmp_path / "crowd.tsv", name="crowd-kit", cleaning=Cleaning())


@pytest.mark.parametrize(
    ("former", "damaged", "says"),
    [
        ("is_attn_check", "check", "not the layout"),
        ("correct_guess", "guess", "no column 'correct_guess'"),
        ("reaction_time", "time", "no column 'reaction_time'"),
        ("\n0,0,0,", "\n0,0,2,", "is_attn_check is 2"),
        ("\n0,0,0,", "\n0.5,0,0,", "annotator_id is 0.5"),
        ("\n0,0,0,", "\nme,0,0,", "annotator_id' has a cell that is no number"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(tmp_path, former, damaged, says):
    path = write(tmp_path / "raw.csv")
    path.write_text(path.read_text().replace(former, damaged, 1))
    with pytest.raises(InputError, match=says) as refusal:
        read_export(path, name="cifar-10h")
    assert "raw.csv" in refusal.value.where


@pytest.mark.parametrize("wrong", [{"passing": 75}, {"passing": -0.1}, {"fastest": 500, "slowest": 100}])
def test_limits_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InputError):
        Cleaning(**wrong)
