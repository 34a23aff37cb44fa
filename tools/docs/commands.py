"""docs/reference/cli.md: every command, as the signature of its own function declares it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from labeldp import errors
from labeldp.cli import app

VALUES = {Path: "PATH", int: "INTEGER", float: "NUMBER", str: "TEXT"}

EXIT_CODES = {
    0: "done",
    1: "a defect of labeldp, whose message is withheld, since it may quote a label; or a worker process that died",
    2: "unusable input or ledger: nothing was charged, nothing is half-written",
    3: "the ledger refuses, or a verification found something",
    4: "charged, but not finished: run the same command again, it costs nothing",
    130: "interrupted (Ctrl-C): the same command goes on, and nothing is charged twice",
    141: "the reader of its output went away (a closed pipe): nothing is wrong",
}

ENVIRONMENT = {
    "LABELDP_LEDGER": "The ledger, where `--ledger` names none. Else: the user's own (Linux: `~/.local/share/labeldp/labels.ledger`).",
    "LABELDP_DATA": "Where CIFAR and Fashion-MNIST are, where `--data` does not say. Else: `data`.",
    "LABELDP_CACHE": "Where decoded images are kept. Else: the user's cache folder (Linux: `~/.cache/labeldp`).",
    "LABELDP_DEBUG": "Set to anything: a defect ends in a traceback with its message, which may quote a label. For your own eyes.",
}

HEAD = """\
# Command line

Every command says the same with `--help`; `labeldp --version` prints the version. Each command
has a function behind it: [from Python](../python.md).
This page is written by `make references` from the commands themselves; do not edit it.

## Exit codes

| code | meaning | in Python |
| --- | --- | --- |
{codes}

## Output

Results go to stdout, and with `--json`, which every command takes, they are one JSON document. Progress and warnings
go to stderr: bars with the time that is left on a terminal; elsewhere `train` prints a line
an epoch, and the others nothing. `NO_COLOR` is respected. If stdout is closed or full, a command that was told where to write files
(`--out`, `--html`) warns and ends as it would have; where the result is what is printed, that is an error (2).

## Environment

| variable | what |
| --- | --- |
{environment}

## Shell completion

`labeldp --install-completion` makes the Tab key complete commands, options and values (mechanisms, models, data sets, those that
the ledger knows) in bash, zsh, fish and PowerShell;
`labeldp --show-completion` prints the script instead, to be put where you like.

## All commands

| command | what |
| --- | --- |
{overview}
"""


@dataclass(frozen=True)
class Parameter:
    """One argument or option."""

    name: str  # as typed: --out, or FILES
    value: str  # what stands after it; of a flag nothing
    help: str
    default: Any
    required: bool
    repeated: bool
    panel: str
    option: bool

    def usage(self) -> str:
        """As it stands in a line of usage."""
        text = f"{self.name} {self.value}".strip() if self.option else self.name
        return (text if self.required else f"[{text}]") + ("…" if self.repeated else "")

    def default_text(self) -> str:
        """The last column of its table."""
        if self.required:
            return "required"
        said_nothing = self.default is None or self.default is False or self.default == ()
        return "" if said_nothing else f"`{self.default}`"


@dataclass(frozen=True)
class Command:
    """A command, by the words that call it."""

    words: str
    function: Callable[..., Any]

    @property
    def paragraphs(self) -> list[str]:
        """Its docstring."""
        return [" ".join(part.split()) for part in (inspect.getdoc(self.function) or "").split("\n\n") if part.strip()]

    def parameters(self) -> list[Parameter]:
        """In the order of the signature."""
        hints = get_type_hints(self.function, include_extras=True)
        made = [_parameter(p, hints[p.name]) for p in inspect.signature(self.function).parameters.values()]
        return [parameter for parameter in made if parameter is not None]


def commands(group: typer.Typer = app, prefix: str = "labeldp") -> Iterator[Command]:
    """Every command of the app, in the order of its help."""
    for command in group.registered_commands:
        if command.callback is not None and not command.hidden:
            yield Command(f"{prefix} {command.name or command.callback.__name__.replace('_', '-')}", command.callback)
    for nested in group.registered_groups:
        if nested.typer_instance is not None:
            yield from commands(nested.typer_instance, f"{prefix} {nested.name}")


def page() -> str:
    """The whole page."""
    found = list(commands())
    named = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.LabelDPError)]
    by_code = {code: ", ".join(f"`{kind.__name__}`" for kind in named if kind.exit_code == code) for code in EXIT_CODES}
    head = HEAD.format(
        codes="\n".join(f"| {code} | {text} | {by_code[code]} |" for code, text in EXIT_CODES.items()),
        environment="\n".join(f"| `{name}` | {text} |" for name, text in ENVIRONMENT.items()),
        overview="\n".join(
            f"| [`{command.words}`](#{command.words.replace(' ', '-')}) | {_cell(command.paragraphs[0])} |"
            for command in found
        ),
    )
    return "\n".join([head, *map(_section, found)])


def _section(command: Command) -> str:
    examples = [re.fullmatch(r"([^:]+): ((?:labeldp|torchrun) .+)", part) for part in command.paragraphs]
    lines = [f"## {command.words}", ""]
    for text in (text for text, example in zip(command.paragraphs, examples, strict=True) if example is None):
        lines += [prose(text), ""]
    parameters = command.parameters()
    usage = [command.words, *(p.usage() for p in parameters if p.required or not p.option)]
    if any(p.option and not p.required for p in parameters):
        usage.append("[OPTIONS]")
    lines += ["```text", " ".join(usage), "```", ""]
    lines += [f"- {example[1]}: `{example[2]}`" for example in examples if example is not None]
    if any(examples):
        lines.append("")
    arguments = [p for p in parameters if not p.option]
    if arguments:
        lines += ["| argument | what |", "| --- | --- |", *(f"| `{p.name}` | {_cell(p.help)} |" for p in arguments), ""]
    for panel in dict.fromkeys(p.panel for p in parameters if p.option):
        lines += [f"**{panel}**", ""] if panel else []
        lines += ["| option | what | default |", "| --- | --- | --- |"]
        for option in (p for p in parameters if p.option and p.panel == panel):
            again = (
                " (may be given several times)"
                if option.repeated and "several times" not in option.help.lower()
                else ""
            )
            shown = f"{option.name} {option.value}".strip()
            lines.append(f"| `{shown}` | {_cell(option.help)}{again} | {option.default_text()} |")
        lines.append("")
    return "\n".join(lines)


def _parameter(parameter: inspect.Parameter, hint: Any) -> Parameter | None:
    told = next(
        (data for data in getattr(hint, "__metadata__", ()) if isinstance(data, OptionInfo | ArgumentInfo)), None
    )
    if told is None or told.hidden:
        return None
    kind, repeated = _kind(hint)
    option = isinstance(told, OptionInfo)
    # Within Annotated there is no default to give first, and Typer finds the first flag in its place.
    flags = [
        flag for flag in (told.default, *(told.param_decls or ())) if isinstance(flag, str) and flag.startswith("-")
    ]
    name = ", ".join(flags) if option else told.metavar or parameter.name.upper()
    if option and not flags:
        name = "--" + parameter.name.replace("_", "-")
    required = parameter.default is inspect.Parameter.empty
    return Parameter(
        name=name,
        value="" if kind is bool else told.metavar or VALUES.get(kind, "TEXT"),
        help=" ".join((told.help or "").split()),
        default=None if required else parameter.default,
        required=required,
        repeated=repeated,
        panel=told.rich_help_panel if isinstance(told.rich_help_panel, str) else "",
        option=option,
    )


def _kind(hint: Any) -> tuple[type, bool]:
    """What a value is, and whether there may be many."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) in (list, tuple):
        return get_args(hint)[0], True
    return hint, False


def prose(text: str) -> str:
    """Plain text as Markdown; what stands between backticks is left alone."""
    parts = text.split("`")
    return "`".join(re.sub(r"([*<\[\]])", r"\\\1", part) if i % 2 == 0 else part for i, part in enumerate(parts))


def _cell(text: str) -> str:
    return prose(text).replace("|", "\\|")
