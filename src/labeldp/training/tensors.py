"""safetensors whose bytes depend on what is in them alone: equal runs leave equal files."""

from __future__ import annotations

import json
from collections.abc import Mapping

from torch import Tensor


def encode(tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> bytes:
    """As `safetensors.torch.save`, which writes tensors in an order of its own but what is said `about` them in any."""
    from safetensors.torch import save

    # Cloned, since tied weights share memory, which the format does not know.
    content = save({name: value.cpu().contiguous().clone() for name, value in tensors.items()}, dict(about))
    start, end = 8, 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[start:end])
    header["__metadata__"] = dict(sorted(about.items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    padded = text.ljust(-(-len(text) // 8) * 8)  # tensors begin at a multiple of 8
    return len(padded).to_bytes(8, "little") + padded + content[end:]
