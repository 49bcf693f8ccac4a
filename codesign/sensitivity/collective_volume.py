"""What a collective puts on each fabric: bytes inside the NVLink domain and between domains."""

from __future__ import annotations

import numpy as np

from codesign.sensitivity.hardware_arrays import Array

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv",
         "dispatch", "combine")  # fmt: skip
KIND_INDEX = {name: float(index) for index, name in enumerate(KINDS)}
PER_EXPERT, PER_SLOT, PER_RANK = 0.0, 1.0, 2.0
"""How a token with several experts travels: a copy per expert choice (low-latency kernels), a
slot per choice but no more than ranks (TensorRT-LLM), or one copy per rank that holds any of
its experts (DeepEP's normal kernels)."""


def span_in_domain(group_size: Array, stride: Array, domain: Array) -> Array:
    """(systems, ops) ranks of a group inside one NVLink domain.

    Ranks of the group stand ``stride`` global ranks apart; a domain holds consecutive
    ranks. The result divides the work evenly: a group of 12 over domains of 8 is two
    halves of 6, since a collective is as slow as its fullest domain is wide.
    """
    room = np.maximum(1.0, np.floor(domain / stride))
    domains = np.ceil(group_size / np.minimum(room, group_size))
    result: Array = group_size / domains
    return result


def inside_bytes(
    kind: Array, size: Array, group: Array, span: Array, copies: Array, forwards: Array
) -> Array:
    """(systems, ops) bytes that a rank sends to peers of its own domain.

    ``size`` follows nccl-tests (all_gather: total; all_to_all: what a rank sends, its own
    part included); ``copies`` multiplies the payload of dispatch and combine. A hierarchical
    all_reduce, all_gather or reduce_scatter moves the whole message inside each domain. Where
    ``forwards``, a token crosses once per domain and is handed on inside it, so that what
    comes from other domains is sent inside as well.
    """
    share = (span - 1.0) / span
    gathered = size * share
    exchanged = size * copies * np.where(forwards, share, (span - 1.0) / group)
    pair = size * np.where(span > 1.0, 1.0, 0.0)
    choices = [kind == KIND_INDEX["all_reduce"], kind <= KIND_INDEX["reduce_scatter"],
               (kind == KIND_INDEX["broadcast"]) | (kind == KIND_INDEX["send_recv"])]  # fmt: skip
    return np.select(choices, [2.0 * gathered, gathered, pair], exchanged)


def outside_bytes(kind: Array, size: Array, group: Array, span: Array, copies: Array) -> Array:
    """(systems, ops) bytes that a rank sends to other domains.

    Of a reduced or gathered message each rank carries its share, 1 / span, to the peers of
    its index; an exchange sends to every rank outside.
    """
    domains = group / span
    share = (domains - 1.0) / domains
    carried = size / span * share
    exchanged = size * copies * (group - span) / group
    pair = size * np.where(domains > 1.0, 1.0, 0.0)
    choices = [kind == KIND_INDEX["all_reduce"], kind <= KIND_INDEX["reduce_scatter"],
               kind == KIND_INDEX["broadcast"], kind == KIND_INDEX["send_recv"]]  # fmt: skip
    whole = np.where(span > 1.0, 0.0, pair)
    return np.select(choices, [2.0 * carried, carried, pair / span, whole], exchanged)


def copies_sent(policy: Array, topk: Array, ranks: Array) -> Array:
    """(systems, ops) copies of a token over ``ranks`` places, per expert choice of its topk.

    One copy per place that holds at least one of ``topk`` experts drawn evenly is
    ranks x (1 - (1 - 1 / ranks)^topk) places.
    """
    places = ranks * (1.0 - (1.0 - 1.0 / np.maximum(ranks, 1.0)) ** topk)
    used = np.select(
        [policy == PER_EXPERT, policy == PER_SLOT], [topk, np.minimum(topk, ranks)], places
    )
    result: Array = used / topk
    return result
