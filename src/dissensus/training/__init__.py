"""How a network is trained: the recipe, the one loop, and what it needs."""
