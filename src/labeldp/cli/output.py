"""How commands print: JSON for programs, aligned lines and tables for people."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from labeldp.cli.arguments import as_options
from labeldp.wording import upward

if TYPE_CHECKING:
    from rich.console import Console

_NAME_WIDTH = 12
_NO_LIMIT = 1 << 20  # columns


def print_json(data: Any) -> None:
    """One JSON document, full precision, never NaN or Infinity."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Name and value, a line each. On a terminal a long value goes on below itself, and what is insecure is red."""
    for name, said in facts:
        value = _printable(said)
        if not sys.stdout.isatty():
            typer.echo(f"{name:<{_NAME_WIDTH}} {value}")
            continue
        console = _console()
        indent = " " * (max(_NAME_WIDTH, len(name)) + 1)
        text = ("\n" + indent).join(_wrapped(value, console.width - len(indent)))
        style = "bold red" if name == "INSECURE" else None
        console.print(f"{name:<{_NAME_WIDTH}} {text}", style=style, markup=False, highlight=False, soft_wrap=True)


def _printable(text: str) -> str:
    """What a terminal would obey is not sent to it: a run's names may be somebody else's."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most so many characters. No word is broken: a path stays one that can be copied."""
    return [
        piece
        for line in text.splitlines()
        for piece in textwrap.wrap(line.strip(), max(width, 20), break_long_words=False, break_on_hyphens=False)
    ]


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """A table; numbers are right-aligned by the caller's choice of a leading '>' in the column's name."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        right = column.startswith(">")
        justify: Any = "right" if right else "left"
        table.add_column(column.removeprefix(">"), justify=justify, no_wrap=right, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_printable(cell)) for cell in row))  # as it is: a name in brackets is no markup
    _console().print(table)


def _console() -> Console:
    """As wide as the terminal; elsewhere, as wide as is needed: nothing is cut off."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=_NO_LIMIT)


def warn(warning: str) -> None:
    """One line on standard error."""
    typer.echo(f"warning: {as_options(warning)}", err=True)


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
    return f"ε = {upward(certificate['epsilon'], 6)} ({pure}) for {alone}; neighbours differ in one label{given}"


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


def order_text(done: dict[str, Any]) -> str:
    """Whether the rows are in the order of their file."""
    return "shuffled" if done["shuffled"] else "that of the input, and public (--shuffle would have hidden it)"
