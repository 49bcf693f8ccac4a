"""What readers note of a capture, in words that those who read it know again."""

from __future__ import annotations

KERNELS_OF = "kernels of"
"""Key of ``header.software`` for the framework from whose kernels a recipe was composed."""
_UNNAMED = "device: not named"
_ELSEWHERE = " was recorded, but --system "


def device_note(name: str | None) -> str:
    """How a characterization notes the device that was recorded, or that none was."""
    return f"device: {name}" if name else _UNNAMED


def is_unnamed(note: str) -> bool:
    """Whether a note says that the capture does not name its device."""
    return note == _UNNAMED


def elsewhere(device: str, stated: str, gpu: str) -> str:
    """The warning that ``device`` was recorded where the system ``stated`` is of ``gpu``."""
    return (
        f"{device}{_ELSEWHERE}{stated} is made of {gpu}: peaks and bandwidths are taken from there"
    )


def recorded_elsewhere(warning: str) -> str:
    """The device that such a warning names; empty for any other."""
    device, found, _ = warning.partition(_ELSEWHERE)
    return device if found else ""
