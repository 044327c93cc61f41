import functools
import multiprocessing
import os
import signal
import time

import pytest
import torch

from dissensus.errors import InputError
from dissensus.training.stacked import side_by_side as module
from dissensus.training.stacked.side_by_side import side_by_side

pytestmark = pytest.mark.skipif(not module._can_fork(), reason="this system cannot fork")


@pytest.fixture(params=["processes", "threads"])
def either(request, monkeypatch):
    """Both ways of working side by side; what is true of one must be true of the other."""
    monkeypatch.setattr(module, "_can_fork", lambda: request.param == "processes")
    return request.param


def squared(number, tick):
    tick(number)
    return torch.tensor(number) ** 2


def endless(tick):
    while True:
        tick(0)
        time.sleep(0.01)


def fails(error, tick):
    tick(1)
    raise error


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_answers_stand_in_the_order_of_the_tasks_and_every_tick_is_heard(either, workers):
    heard = []
    answers = side_by_side([functools.partial(squared, number) for number in range(7)], workers, heard.append)
    assert torch.stack(answers).tolist() == [number**2 for number in range(7)]
    assert sorted(heard) == list(range(7))


def test_processes_are_other_processes_with_one_thread():
    tasks = [lambda _: (os.getpid(), torch.get_num_threads())] * 2
    told = side_by_side(tasks, 2, lambda _: None)
    assert all(pid != os.getpid() and threads == 1 for pid, threads in told)


@pytest.mark.parametrize("error", [OSError("gone"), InputError("no such thing", where="there", hint="Look", state="")])
def test_an_error_ends_the_others_and_says_where_it_was_raised(either, error):
    with pytest.raises(type(error)) as raised:
        side_by_side([endless, functools.partial(fails, error)], 2, lambda _: None)
    assert str(raised.value) == str(error)
    if either == "processes" and isinstance(error, OSError):  # an InputError pickles as its parts
        assert "in fails" in raised.value.__notes__[0]
    assert multiprocessing.active_children() == []


def test_an_error_that_cannot_be_pickled_is_told_in_words():
    class LocalError(Exception):
        pass

    with pytest.raises(RuntimeError, match="LocalError: odd"):
        side_by_side([endless, functools.partial(fails, LocalError("odd"))], 2, lambda _: None)


def test_a_process_that_is_killed_is_said_so():
    with pytest.raises(RuntimeError, match="was killed"):
        side_by_side([lambda _: os.kill(os.getpid(), signal.SIGKILL)] * 2, 2, lambda _: None)


def test_an_interrupt_leaves_no_process_behind():
    def interrupted(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        side_by_side([endless, endless], 2, interrupted)
    assert multiprocessing.active_children() == []


def test_a_daemon_which_may_have_no_children_uses_threads():
    def answer(end):
        end.send([int(one) for one in side_by_side([functools.partial(squared, 3)] * 2, 2, lambda _: None)])

    ours, theirs = multiprocessing.Pipe()
    daemon = multiprocessing.get_context("fork").Process(target=answer, args=(theirs,), daemon=True)
    daemon.start()
    assert ours.poll(20)
    assert ours.recv() == [9, 9]
    daemon.join()
