"""How commands print: JSON for programs, aligned lines and tables for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import typer


def print_json(data: Any) -> None:
    """One JSON document, full precision, never NaN or Infinity."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Name and value, a line each."""
    for name, value in facts:
        typer.echo(f"{name:<12} {value}")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """A table; numbers are right-aligned by the caller's choice of a leading '>' in the column's name."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:  # piped, a table is as wide as it needs to be: nothing is cut off
        console.width = 200
    console.print(table)


def number(value: float) -> str:
    """Six significant digits, for people."""
    return f"{value:.6g}"


def guarantee_text(certificate: dict[str, Any], of: str = "file") -> str:
    """The certificate in words."""
    if certificate["epsilon"] is None:
        return f"none: {certificate['reason']}"
    pure = "pure" if not certificate["delta"] else f"δ = {certificate['delta']:g}"
    given = f"; given {certificate['given']}" if "given" in certificate else ""
    alone = of if of.startswith("these") else f"this {of} alone"
    return f"ε = {number(certificate['epsilon'])} ({pure}) for {alone}; neighbours differ in one label{given}"


def cost_text(done: dict[str, Any], now: str = "charged now") -> str:
    """What a release cost, and when."""
    if done["charged"]:
        return now
    if done["resumed"]:
        return f"charged on {done['made']}, interrupted then, finished now: nothing more charged"
    return f"made on {done['made']}, nothing charged"


def ledger_text(done: dict[str, Any]) -> str:
    """Which ledger has it, under which number."""
    return f"{done['ledger']} (entry {done['entry']}{'; a new ledger, begun now' if done['ledger_begun'] else ''})"


def show(done: dict[str, Any], facts: Callable[[dict[str, Any]], list[tuple[str, str]]], *, json: bool) -> None:
    """What was done: warnings to stderr, then JSON, or facts for people."""
    for warning in done["warnings"]:
        typer.echo(f"warning: {warning}", err=True)
    if json:
        print_json(done)
    else:
        print_facts(facts(done))
