"""Which spec comes next."""

from dissensus.engine.events import Event, ignore
from dissensus.engine.scheduler import Scheduler
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Run, Spec

TRAINED = Spec("train", {"seed": 0})
MEASURED = Spec("measure", {"name": "evaluation"}, {"of": (TRAINED.id,)})


def test_a_spec_is_handed_out_only_when_its_inputs_are_there(tmp_path):
    ledger = Ledger(tmp_path)
    scheduler = Scheduler([MEASURED, TRAINED], ledger, ignore)
    assert scheduler.next().specs == (TRAINED,)
    assert scheduler.next() is None
    assert scheduler.unfinished
    ledger.publish(Run(TRAINED, {}, {}, {}, {}), {}, {})
    scheduler.note(Event("done", TRAINED.id))
    assert scheduler.next().specs == (MEASURED,)
    scheduler.note(Event("failed", MEASURED.id, message="why"))
    assert scheduler.result().failed == {MEASURED.id: "why"}


def test_a_run_that_was_given_back_is_the_next_again(tmp_path):
    scheduler = Scheduler([TRAINED], Ledger(tmp_path), ignore)
    scheduler.take_back(scheduler.next().run_ids)
    assert scheduler.next().specs == (TRAINED,)


def test_once_the_disk_is_full_nothing_is_handed_out_and_nothing_counts_as_blocked(tmp_path):
    scheduler = Scheduler([TRAINED, MEASURED], Ledger(tmp_path), ignore)
    scheduler.next()
    scheduler.note(Event("disk_full", TRAINED.id, message="no room left"))
    assert scheduler.next() is None
    assert (scheduler.result().blocked, scheduler.result().disk_full) == ((), "no room left")


def test_before_leaving_a_run_to_others_it_is_looked_at_once_more(tmp_path):
    ledger = Ledger(tmp_path)
    scheduler = Scheduler([TRAINED], ledger, ignore)
    scheduler.next()
    scheduler.note(Event("computed_elsewhere", TRAINED.id))
    ledger.publish(Run(TRAINED, {}, {}, {}, {}), {}, {})
    assert scheduler.next() is None
    assert scheduler.result().elsewhere == (TRAINED.id,)  # looked at a moment ago, and so not again yet
    scheduler.look_at_once()
    assert scheduler.result().elsewhere == ()
