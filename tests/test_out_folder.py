"""An --out folder knows its ledger, and a good report is not replaced by an emptier one."""

import json
import shutil
import sys

import pytest

from damaged_files import small_study
from dissensus.cli import main
from dissensus.cli.out_folder import write_out_folder
from dissensus.store import locks
from dissensus.store.atomic_files import DiskFullError
from dissensus.store.ledger import Ledger


@pytest.fixture
def run(capsys, monkeypatch):
    """Call the command line as a shell would: (exit code, what it printed, what it complained of)."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["dissensus", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out, printed.err

    return call


@pytest.fixture
def out(tmp_path):
    """The --out folder of an experiment whose ledger is elsewhere."""
    ledger, experiment = small_study(tmp_path / "shared")
    folder = tmp_path / "out"
    folder.mkdir()
    write_out_folder(folder, experiment, ledger)
    return folder


def test_a_report_is_made_again_from_the_ledger_that_its_run_used(run, out):
    assert run("report", out)[0] == 0
    page = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    assert run("report", out)[0] == 0
    assert (out / "report.html").read_bytes() == page
    assert "12/12 runs are done" in run("watch", out, "--once")[1]
    assert "12 runs, 0 damaged" in run("runs", "verify", out)[1]


@pytest.mark.parametrize("moved", ["together", "alone"])
def test_an_out_folder_that_is_moved_finds_its_ledger(run, out, tmp_path, moved):
    place = tmp_path / "another"
    place.mkdir()
    if moved == "together":
        shutil.move(out.parent / "shared", place)
    shutil.move(out, place)
    assert run("report", place / "out")[0] == 0


def test_an_emptier_report_is_refused_and_the_good_one_stays_unless_forced(run, out, tmp_path):
    assert run("report", out)[0] == 0
    page = (out / "report.html").read_bytes()
    Ledger(tmp_path / "empty").create()
    code, _, err = run("report", out, "--ledger", tmp_path / "empty")
    assert code == 2
    assert "shows 12 finished runs" in err
    assert "12 would be lost" in err
    assert (out / "report.html").read_bytes() == page
    assert run("report", out, "--ledger", tmp_path / "empty", "--force")[0] == 0
    assert (out / "report.html").read_bytes() != page
    assert run("report", out)[0] == 0  # a fuller one is welcome
    assert (out / "report.html").read_bytes() == page


def test_a_report_of_an_earlier_version_is_not_replaced_by_an_empty_one(run, out, tmp_path):
    (out / "report.html").write_text("<html>a good report</html>")
    Ledger(tmp_path / "empty").create()
    assert run("report", out, "--ledger", tmp_path / "empty")[0] == 2
    assert run("report", out)[0] == 0


@pytest.mark.parametrize("command", ["ls", "verify", "rescore", "show", "rm", "pack"])
def test_a_folder_that_is_no_ledger_is_an_error(run, tmp_path, command):
    (tmp_path / "photos" / "2024").mkdir(parents=True)
    more = {"show": ["0"], "rm": ["0"], "pack": [tmp_path / "x.gz"]}.get(command, [])
    code, out, err = run("runs", command, tmp_path / "photos", *more)
    assert code == 2
    assert "there is no ledger here" in err
    assert out == ""


def test_a_ledger_that_is_gone_is_named(run, out, tmp_path):
    ledger = out.parent / "shared" / "runs"
    ledger.rename(tmp_path / "elsewhere")
    for words in (("report", out), ("runs", "verify", out)):
        code, _, err = run(*words)
        assert code == 2
        assert f"{ledger}, is not there" in " ".join(err.split())
    assert run("report", out, "--ledger", tmp_path / "elsewhere")[0] == 0


def test_a_lost_record_is_verified_and_removed(run, out):
    run_id = Ledger(out.parent / "shared" / "runs").ids()[0]
    (out.parent / "shared" / "runs" / run_id / "run.json").unlink()
    code, printed, _ = run("runs", "verify", out)
    assert code == 1
    assert f"{run_id}: run.json is missing" in printed
    assert run("runs", "rm", out, run_id[:8])[0] == 0
    assert run("runs", "verify", out)[0] == 0


def test_a_draft_that_a_kill_left_does_not_keep_its_run_from_being_removed(run, out):
    ledger = Ledger(out.parent / "shared" / "runs")
    run_id = ledger.ids()[0]
    draft = ledger.folder / ".work" / f"{run_id}-ab12cd34"
    draft.mkdir(parents=True)
    assert run("runs", "rm", out, run_id)[0] == 0
    assert run_id not in ledger
    assert not draft.exists()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"relative": 1}', b"\xff", b'{"relative": "a\\u0000", "absolute": ""}']
)
def test_a_damaged_place_of_the_ledger_is_refused(run, out, content):
    (out / "ledger.json").write_bytes(content)
    code, _, err = run("report", out)
    assert code == 2
    assert "the file is damaged" in err
    assert run("report", out, "--ledger", out.parent / "shared" / "runs")[0] == 0


def test_odd_locks_and_progress_do_not_keep_anybody_from_watching(run, out):
    ledger = Ledger(out.parent / "shared" / "runs")
    run_id = ledger.ids()[0]
    ledger.remove(run_id)
    lock = locks.take(ledger.lock_file(run_id))
    for content in (b"\xff\x00", b"[]", b'{"epoch": "x"}', json.dumps({"epoch": 1, "epochs": 0, "loss": 1}).encode()):
        ledger.progress_file(run_id).write_bytes(content)
        assert "11/12 runs are done, 1 running" in run("watch", out, "--once")[1]
    lock.release()


def test_a_report_that_finds_the_disk_full_leaves_the_one_that_is_there(run, out, monkeypatch):
    def full(file, content, durable=True):
        raise DiskFullError("there is no room left")

    assert run("report", out)[0] == 0
    before = {file.name: file.read_bytes() for file in out.iterdir() if file.is_file()}
    monkeypatch.setattr("dissensus.report.write_whole", full)
    code, _, err = run("report", out, "--baseline", "Majority")
    assert code == 2
    assert "no room left" in err
    assert {file.name: file.read_bytes() for file in out.iterdir() if file.is_file()} == before
