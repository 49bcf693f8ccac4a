"""Chart geometry: pure functions from values to pixels; templates draw what they return."""
