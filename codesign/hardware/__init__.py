"""GPU and system specifications, levers and their costs."""
