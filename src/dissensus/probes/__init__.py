"""Pure functions of a trained model and tensors: sharpness, barriers, detectors, attention, features."""
