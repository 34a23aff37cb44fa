"""Pillow, which decodes images and comes with the `train` extra."""

from __future__ import annotations

from typing import Any

from labeldp.errors import InputError

# Decoders of pictures only: Pillow would hand a PostScript file to Ghostscript, whatever it is called.
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")


def pillow() -> Any:
    """The module `PIL.Image`, or a sentence on how to get it."""
    try:
        from PIL import Image
    except ImportError:
        raise InputError('decoding images needs Pillow: pip install "labeldp[train]"') from None
    return Image
