"""From a spec to a run: setup, training alone or stacked, judging, measures of finished runs, and the executors."""
