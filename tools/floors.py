"""The oldest version of every library that pyproject.toml allows, as constraints for pip; `make test-floors` tests with them.

They are read from where labeldp itself reads them, so that what is stated is what is tested.
"""

from __future__ import annotations

from collections.abc import Iterable

from labeldp.requirements import Requirement, requirements


def pinned(needed: Iterable[Requirement]) -> list[str]:
    """`name==floor` for each; two floors of one library are refused. Without a floor are only tools that no user runs."""
    floors: dict[str, str] = {}
    for one in needed:
        if one.floor is None and one.extra != "dev":
            raise SystemExit(f"pyproject.toml states no floor for {one.name}.")
        if one.floor is not None and floors.setdefault(one.name, one.floor) != one.floor:
            raise SystemExit(f"pyproject.toml states two floors for {one.name}.")
    if not floors:
        raise SystemExit("labeldp is not installed here: pip install --no-deps -e .")
    return [f"{name}=={floor}" for name, floor in sorted(floors.items())]


if __name__ == "__main__":
    print("\n".join(pinned(requirements())))
