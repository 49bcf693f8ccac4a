"""Renders a recommendations file."""
