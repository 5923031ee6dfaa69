"""The device that a run, or one of its ranks, trains on. May import: torch."""

from __future__ import annotations

import torch


def resolve_device(name: str) -> torch.device:
    """Return the device of this name.

    Raises
    ------
    ValueError
        There is no such device on this machine.
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device: {name!r} is not known to torch; use cpu or cuda") from error
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device: {name!r} is not supported; use cpu or cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device: {name!r} asked for, but torch sees no CUDA device; use cpu")
    return device


def device_of_rank(device: str, local_rank: int, local_size: int) -> torch.device:
    """Return a rank's own device.

    Raises
    ------
    ValueError
        There is no such device, it has a number although there are several ranks, or there are more
        ranks than devices.
    """
    resolved = resolve_device(device)
    if resolved.type != "cuda" or local_size == 1:
        return resolved
    if resolved.index is not None:
        raise ValueError(f"device: {device!r} names one device for {local_size} ranks; use cuda")
    available = torch.cuda.device_count()
    if available < local_size:
        raise ValueError(
            f"device: {local_size} ranks on this host, but torch sees {available} CUDA devices; "
            f"start torchrun with --nproc-per-node {available}"
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)
