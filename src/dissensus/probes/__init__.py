"""What can be asked of a trained model: pure functions of a model and tensors, which leave the model as it was."""
