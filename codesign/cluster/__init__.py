"""Step time over many GPUs: plans, memory, schedules, collectives, and the search for the best."""
