"""`dissensus convert`: any votes in, a plain table out, and it says what happened."""

import pytest
from click.testing import CliRunner

from dissensus.cli import cli
from dissensus.errors import InputError
from dissensus.votes import read_votes
from export_samples import SAMPLES, ExportSample
from test_exports import by_hand, counted


def convert(*arguments: object) -> str:
    result = CliRunner().invoke(cli, ["convert", *map(str, arguments)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.output


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.title)
def test_a_converted_export_holds_the_votes_counted_by_hand(sample: ExportSample, tmp_path):
    options = [f"--{name}={value if isinstance(value, str) else ','.join(value)}" for name, value in sample.asked.items()]
    output = convert(sample.write(tmp_path / "in"), tmp_path / "out.csv", *options)
    assert counted(read_votes(tmp_path / "out.csv")) == by_hand(sample)
    assert "read as: " in output
    assert f"{sum(times for *_, times in sample.votes)} votes" in output


def test_the_extension_and_the_layout_decide_what_is_written(tmp_path):
    source = tmp_path / "votes.csv"
    source.write_text("item,annotator,label\na,w1,cat\na,w2,dog\nb,w1,cat\n")
    for name in ("long.csv", "long.tsv", "long.jsonl", "long.parquet"):
        convert(source, tmp_path / name)
        assert counted(read_votes(tmp_path / name)) == counted(read_votes(source))
    convert(source, tmp_path / "wide.csv", "--to", "wide")
    assert (tmp_path / "wide.csv").read_text() == "item,w1,w2\na,cat,dog\nb,cat,\n"
    output = convert(source, tmp_path / "counts.csv", "--to", "counts")
    assert (tmp_path / "counts.csv").read_text() == "item,cat,dog\na,1,1\nb,1,0\n"
    assert "counts do not say who voted" in output
    convert(source, tmp_path / "counts.npz")
    assert read_votes(tmp_path / "counts.npz").counts.tolist() == [[1, 1], [1, 0]]


def test_a_file_is_replaced_only_by_force(tmp_path):
    source, target = tmp_path / "votes.csv", tmp_path / "out.csv"
    source.write_text("item,label\na,cat\n")
    target.write_text("precious")
    with pytest.raises(InputError, match="the file exists"):
        convert(source, target)
    assert target.read_text() == "precious"
    convert(source, target, "--force")
    assert target.read_text() == "item,label\na,cat\n"
    with pytest.raises(InputError, match="this file is read by the command"):
        convert(source, source, "--force")
