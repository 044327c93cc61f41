"""From a spec to a run: set-up, one run or many in one call, measures of finished runs, and who computes them where."""
