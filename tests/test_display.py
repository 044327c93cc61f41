"""The time that is left, as a person reads it."""

import io

import pytest
from rich.console import Console

from dissensus.cli import progress as display
from dissensus.cli.progress import Display, read_status
from dissensus.engine.events import Event, read_failure, read_progress
from dissensus.store.ledger import Ledger


def test_what_a_run_wrote_about_itself_may_be_damaged_or_empty(tmp_path):
    ledger, run_id = Ledger(tmp_path), "a" * 16
    assert (read_progress(ledger, run_id), read_failure(ledger, run_id)) == (None, None)
    ledger.work(run_id).mkdir(parents=True)
    for content in (b"", b"\xff", b"{", b"[]", b'{"epoch": "1"}', b'{"epoch": 1, "epochs": 2, "loss": NaN}'):
        ledger.progress_file(run_id).write_bytes(content)
        ledger.error_file(run_id).write_bytes(content)
        assert read_progress(ledger, run_id) is None
        assert read_status({run_id: "one"}, ledger).failed["one"].strip().splitlines()
    ledger.progress_file(run_id).write_text('{"epoch": 1, "epochs": 2, "loss": null}')
    ledger.error_file(run_id).unlink()
    ledger.error_file(run_id).mkdir()
    assert read_failure(ledger, run_id) == "this is not a regular file"
    assert read_progress(ledger, run_id) == Event("epoch", run_id, 1, 2, None)


@pytest.fixture
def clock(monkeypatch):
    """Seconds since the display was made; a test moves it."""
    now = {"now": 0.0}
    monkeypatch.setattr(display.time, "monotonic", lambda: now["now"])
    return now


def told(labels, costs, clock, *events):
    """The last line, after events at these times."""
    written, clock["now"] = io.StringIO(), 0.0
    shown = Display(labels, costs, Console(file=written), quiet_every=-1)
    for when, event in events:
        clock["now"] = when
        shown(event)
    return written.getvalue().splitlines()[-1]


def test_time_left_weighs_runs_by_what_they_cost(clock):
    labels, costs = dict.fromkeys("abcd", ""), {"a": 2.0, "b": 6.0}  # c and d look at a and b
    events = [(0, Event("started", "a")), (30, Event("epoch", "a", 1, 2))]
    assert told(labels, costs, clock, *events) == "0/4 runs · about 4 min left"
    events += [(60, Event("epoch", "a", 2, 2)), (60, Event("done", "a"))]
    assert told(labels, costs, clock, *events) == "1/4 runs · about 3 min left"
    events += [(60, Event("started", "b")), (240, Event("epoch", "b", 3, 3)), (240, Event("done", "b"))]
    assert told(labels, costs, clock, *events) == "2/4 runs · training is done"


def test_without_costs_all_runs_are_equal(clock):
    events = [(0, Event("already_done", "a")), (100, Event("started", "b")), (100, Event("done", "b"))]
    assert told(dict.fromkeys("abc", ""), {}, clock, *events) == "2/3 runs · about 2 min left"


def test_what_a_resumed_run_had_behind_it_does_not_count_as_speed(clock):
    events = [(0, Event("started", "a")), *((60 * done, Event("epoch", "a", 5 + done, 10)) for done in (1, 2, 3))]
    assert told({"a": ""}, {"a": 1.0}, clock, *events) == "0/1 runs · about 2 min left"


def test_nothing_is_told_before_a_fifth_of_a_run(clock):
    assert told({"a": ""}, {"a": 1.0}, clock, (60, Event("epoch", "a", 1, 10))) == "0/1 runs · time left: not known yet"
