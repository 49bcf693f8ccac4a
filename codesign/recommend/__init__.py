"""Ranks hardware levers by gain, confidence and cost."""
