"""From op to step to portfolio, on hardware that changes."""
