"""What a collective behind compute takes from it: SMs, and the bandwidth of HBM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codesign.cluster.plan import Plans

if TYPE_CHECKING:
    from codesign.hardware.model import System

Array = NDArray[np.float64]

COLLECTIVE_SMS = 24.0
"""SMs of a collective: DeepEP's default, amid the 16 to 32 channels of NCCL on NVLink."""


def taken(systems: Sequence[System], plans: Plans) -> dict[str, Array]:
    """By kind of collective, (systems, plans) share of the compute beside it that it takes.

    Its SMs compute nothing meanwhile, and what arrives over its link is written to HBM as
    what leaves is read: SMs / all SMs + 2 x link bandwidth / HBM bandwidth, at most 1. The
    link is NVLink for a group inside one domain, the NIC for one that leaves it.
    """
    dense = plans.tp * plans.cp * plans.dp
    reach = {"tp": plans.tp, "cp": plans.tp * plans.cp, "ep": plans.ep, "dp": dense}
    domain = np.array([s.nvlink_domain for s in systems])[:, None]
    sms = np.array([COLLECTIVE_SMS / s.gpu.sm_count for s in systems])[:, None]
    hbm = np.array([s.gpu.hbm_bandwidth_bytes_per_s for s in systems])[:, None]
    inside = np.array([s.nvlink_bandwidth_bytes_per_s for s in systems])[:, None]
    outside = np.array([s.scaleout_bandwidth_bytes_per_s for s in systems])[:, None]
    found = {}
    for kind, ranks in reach.items():
        link = np.where(ranks[None, :] <= domain, inside, outside)
        found[kind] = np.minimum(sms + 2.0 * link / hbm, 1.0)
    return found
