"""What is handed over, its file, and how it is made."""

from labeldp.release.release import Release

__all__ = ["Release"]
