"""Units, errors and files: what every layer may use."""
