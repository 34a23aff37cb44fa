"""What this machine does fast: device, number type, memory format."""

from __future__ import annotations

import torch

from labeldp.errors import InputError


def choose_device(name: str = "auto") -> torch.device:
    """CUDA, MPS or the CPU, in this order, unless one is named."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):
        raise InputError(f"the device {name!r} is not there; --device auto takes what is.") from None
    return device


def choose_dtype(device: torch.device, name: str = "auto") -> torch.dtype:
    """bfloat16 where the hardware has it. On a CPU without, it silently takes a path twelve times slower than float32."""
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    if name != "auto":
        if name not in known:
            raise InputError(f"--dtype takes auto, {' or '.join(known)}; got {name!r}.")
        return known[name]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    if device.type == "cpu" and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return torch.bfloat16
    return torch.float32
