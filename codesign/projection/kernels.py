"""Whether a workload and the model that projects it rest on the kernels of one library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codesign.workload.notes import KERNELS_OF

if TYPE_CHECKING:
    from codesign.workload.characterization import Header


def other_kernels(header: Header, model: Any) -> tuple[str, ...]:
    """A line if a composed workload's kernels are not those that ``model`` was fitted on.

    What differs between libraries is then taken for what the silicon has of its own.
    """
    whose, fitted = header.software.get(KERNELS_OF), getattr(model, "framework", None)
    if whose is None or fitted is None or whose == fitted:
        return ()
    return (
        f"composed from kernels of {whose}, but the model was fitted on those of {fitted}; fit one "
        f"on the same: codesign fit --framework {whose}",
    )
