"""Tasks side by side: each worker a process forked from this one, or a thread where there is no forking.

A step is some thirty short calls, and threads of one interpreter wait for each other between them, which processes do
not. A forked process has the members, with whatever functions they hold, without a copy; it computes on one thread, on
which forking is safe (the way of PyTorch's DataLoader).
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

Tick = Callable[[int], None]
Task = Callable[[Tick], Any]
"""Does its work, calls the function it is given now and then, and returns what can be pickled."""


def side_by_side(tasks: Sequence[Task], workers: int, tick: Tick) -> list[Any]:
    """What each task returns. `tick` is called with what they report, in this thread or one at a time.

    The first error ends all the others, and is raised here.
    """
    workers, threads = min(workers, len(tasks)), torch.get_num_threads()
    torch.set_num_threads(1)  # workers that share nothing beat threads that meet at the end of every small product
    try:
        if workers <= 1:
            return [task(tick) for task in tasks]
        return _in_processes(tasks, workers, tick) if _can_fork() else _in_threads(tasks, workers, tick)
    finally:
        torch.set_num_threads(threads)


def _can_fork() -> bool:
    """On Linux, and not from a process that may have no children."""
    return sys.platform == "linux" and not multiprocessing.current_process().daemon


def _in_processes(tasks: Sequence[Task], workers: int, tick: Tick) -> list[Any]:
    context = multiprocessing.get_context("fork")
    next_task, results, processes = context.Value("q", 0), {}, {}
    try:
        for _ in range(workers):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(tasks, next_task, theirs), daemon=True)
            with warnings.catch_warnings():  # from Python 3.12 on: that threads are there, which ours never wait for
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            theirs.close()  # so that it ends with the process
            processes[ours] = process
        connected = set(processes)
        while connected:
            for end in wait(list(connected)):
                assert isinstance(end, Connection)
                message = _received(end)
                if message is None:
                    connected.remove(end)
                elif isinstance(message, BaseException):
                    raise message
                elif isinstance(message, int):
                    tick(message)
                else:
                    index, result = message
                    results[index] = result
    finally:
        for process in processes.values():
            process.terminate()
            process.join()
    if len(results) < len(tasks):
        raise RuntimeError("a process that trained a stack was killed, perhaps for want of memory")
    return [results[index] for index in range(len(tasks))]


def _received(end: Connection) -> Any:
    """The next message of a process: an epoch count, a result with its index, an error; None when it has ended."""
    try:
        return pickle.loads(end.recv_bytes())
    except EOFError:
        return None


def _work(tasks: Sequence[Task], next_task: Any, end: Connection) -> None:
    """Take one task after another until none is left. Plain pickles: a tensor is its bytes, and no shared memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and ends this process

    def send(message: object) -> None:
        end.send_bytes(pickle.dumps(message))

    try:
        while True:
            with next_task.get_lock():
                index = next_task.value
                next_task.value += 1
            if index >= len(tasks):
                return
            send((index, tasks[index](send)))
    except BaseException as error:  # raised again in the parent
        send(_portable(error))


def _portable(error: BaseException) -> BaseException:
    """The error with where it was raised, if it survives pickling; or one that says the same."""
    text = "".join(traceback.format_exception(error))
    try:
        error.add_note(text)
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(text)
    return error


class _CancelledError(Exception):
    """Another task failed."""


def _in_threads(tasks: Sequence[Task], workers: int, tick: Tick) -> list[Any]:
    cancelled, lock = threading.Event(), threading.Lock()

    def report(epochs: int) -> None:
        if cancelled.is_set():
            raise _CancelledError
        with lock:
            tick(epochs)

    with ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(task, report) for task in tasks]
        try:
            for future in as_completed(running):
                future.result()
        except BaseException:
            cancelled.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [future.result() for future in running]
