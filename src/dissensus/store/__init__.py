"""What to compute and the results, on disk: specs, runs, locks, checkpoints. It knows nothing of training."""
