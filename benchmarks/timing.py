"""Contenders timed in turn, round after round, so that a noisy machine disturbs all alike; the best of each counts."""

import time


def best_of(rounds, clock=time.perf_counter, **contenders):
    """Seconds of each contender's fastest round, and its last result.

    `clock=time.process_time` counts the processor's time, which a busy machine disturbs less; of one thread they agree.
    """
    seconds = dict.fromkeys(contenders, float("inf"))
    results = {}
    for _ in range(rounds):
        for name, run in contenders.items():
            start = clock()
            results[name] = run()
            seconds[name] = min(seconds[name], clock() - start)
    return seconds, results
