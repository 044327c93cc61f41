"""An experiment described as values, the plan of its runs, and what they cost."""
