"""Which label does the optimiser see? Three independent choices: target, delivery, mixing."""
