"""A run is computed by one of many who could compute it."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

import lives
from dissensus.store import locks


def test_only_one_can_hold_a_lock_and_it_is_free_afterwards(tmp_path):
    file = tmp_path / "work" / "lock"
    lock = locks.take(file)
    assert locks.take(file) is None
    assert locks.is_held(file)
    lock.release()
    assert not locks.is_held(file)
    assert not file.parent.exists()
    locks.take(file).release()


def test_the_lock_of_a_process_that_was_killed_is_free_at_once(tmp_path):
    ready, let_go = lives.CONTEXT.Event(), lives.CONTEXT.Event()
    holder = lives.born(lives.holding, tmp_path / "lock", ready, let_go)
    assert ready.wait(30)
    assert locks.take(tmp_path / "lock") is None
    holder.kill()
    holder.join()
    locks.take(tmp_path / "lock").release()


def test_the_lock_of_another_machine_is_free_only_when_nobody_touched_it_for_long(tmp_path):
    file = tmp_path / "lock"
    file.write_text(json.dumps({"host": "elsewhere", "pid": 1, "lock": "x"}))
    assert locks.take(file) is None
    os.utime(file, (0, file.stat().st_mtime - locks.PATIENCE - 1))
    locks.take(file).release()


def test_a_lock_dated_in_the_future_is_taken_over_by_a_stated_rule_and_said(tmp_path):
    file = tmp_path / "lock"
    file.write_text(json.dumps({"host": "elsewhere", "pid": 1, "lock": "x"}))
    soon, later = file.stat().st_mtime + locks.PATIENCE / 2, file.stat().st_mtime + 7200
    os.utime(file, (soon, soon))
    assert locks.take(file) is None  # a clock that is a little ahead
    os.utime(file, (later, later))
    assert not locks.is_held(file)
    lock = locks.take(file)
    assert "s in the future" in lock.note
    lock.release()
    plain = locks.take(file)
    assert plain.note == ""
    plain.release()


ODD_LOCKS = (b"\xff\xfe\x00\x80", b"", b"[]", b"null", b'{"host": 1, "pid": "x"}', b"[" * 9000, b'{"pid": 1e999}')


@pytest.mark.parametrize("content", ODD_LOCKS)
def test_of_a_lock_that_no_owner_wrote_the_age_decides(tmp_path, content):
    file = tmp_path / "lock"
    file.write_bytes(content)
    assert locks.take(file) is None
    assert locks.is_held(file)
    os.utime(file, (0, 0))
    locks.take(file).release()


@pytest.mark.parametrize("pid", [0, -1, 2**31, 2**70])
def test_a_lock_of_a_process_that_cannot_be_is_not_believed(tmp_path, pid):
    file = tmp_path / "lock"
    file.write_text(json.dumps({"host": locks.socket.gethostname(), "pid": pid, "lock": "x"}))
    (locks.take(file, patience=-1.0) or locks.take(file, patience=-1.0)).release()


def test_a_beating_heart_keeps_all_locks_of_a_process_fresh(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "HEARTBEAT", 0.01)
    files = [tmp_path / name / "lock" for name in "abc"]
    held = [locks.take(file) for file in files]
    for file in files:
        os.utime(file, (0, 0))
    for _ in range(500):
        if all(file.stat().st_mtime > 0 for file in files):
            break
        locks.threading.Event().wait(0.01)
    assert all(file.stat().st_mtime > 0 for file in files)
    for lock in held:
        lock.release()
    assert not list(tmp_path.iterdir())


def test_an_owner_that_slept_through_its_lock_does_not_touch_or_end_the_new_one(tmp_path):
    file = tmp_path / "lock"
    sleeper = locks.take(file)
    file.write_text(json.dumps({"host": "elsewhere", "pid": 1, "lock": "new"}))
    os.utime(file, (0, 0))
    sleeper.touch()
    sleeper.release()
    assert "new" in file.read_text()
    assert file.stat().st_mtime == 0


def test_of_many_who_see_an_abandoned_lock_one_gets_it(tmp_path):
    for attempt in range(20):
        file = tmp_path / str(attempt) / "lock"
        file.parent.mkdir()
        file.write_text(json.dumps({"host": "elsewhere", "pid": 1, "lock": "old"}))
        os.utime(file, (0, 0))
        with ThreadPoolExecutor(8) as pool:
            taken = [lock for lock in pool.map(lambda _, f=file: locks.take(f), range(8)) if lock is not None]
        assert len(taken) == 1
        assert file.read_text() == taken[0].owner
        taken[0].release()
