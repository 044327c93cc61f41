"""Contenders timed in turn, round after round, so that a noisy machine disturbs all alike; the best of each counts."""

import time


def best_of(rounds, **contenders):
    """Seconds of each contender's fastest round, and its last result."""
    seconds = dict.fromkeys(contenders, float("inf"))
    results = {}
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.perf_counter()
            results[name] = run()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds, results
