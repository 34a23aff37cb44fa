"""A command of the command line, made of a dataclass of options, the function that takes it, and how its result is shown."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any, get_args, get_origin

import typer

from labeldp.cli.arguments import as_options
from labeldp.cli.output import print_json, warn
from labeldp.cli.streams import noting_its_result
from labeldp.commands.option import Argument, Declared, Offered, Option, Options, declarations
from labeldp.commands.progress import Progress

Show = Callable[[Any, Any], None]  # from options and result to standard output

_JSON = inspect.Parameter(
    "json", inspect.Parameter.KEYWORD_ONLY, default=False,
    annotation=Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else, to standard output.")],
)  # fmt: skip


class Told(Progress):
    """Whoever sits at the terminal. Bars are loaded when there is work to show."""

    def doing(self, what: str, *, shown: bool = True) -> Progress:
        """A bar, or lines."""
        from labeldp.cli.progress import TerminalProgress

        return TerminalProgress(what, shown=shown)

    def warn(self, text: str) -> None:
        """On standard error."""
        warn(text)

    def line(self, text: str) -> None:
        """On standard error."""
        typer.echo(text, err=True)

    def said(self, text: str) -> str:
        """Arguments are options."""
        return as_options(text)


def command(function: Callable[..., Any], options: type[Options], show: Show) -> Callable[..., None]:
    """What Typer calls: parse, call the one function, print."""

    def run(*, json: bool, **given: Any) -> None:
        asked = made(options, given)
        present(asked, function(asked, Told()), show, json=json)

    return declared(run, function, parameters(options))


def declared(
    run: Callable[..., None], function: Callable[..., Any], given: Iterable[inspect.Parameter]
) -> Callable[..., None]:
    """`run` with this signature, which Typer and the reference read, and the help of `function`."""
    signature = inspect.Signature([*given, _JSON])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return noting_its_result(run)


def made(options: type[Options], given: dict[str, Any]) -> Options:
    """The options, from what was typed."""
    several = {one.name for one in declarations(options) if get_origin(one.kind) is tuple}
    return options(**{name: tuple(value or ()) if name in several else value for name, value in given.items()})


def present(options: Options, result: Any, show: Show, *, json: bool) -> None:
    """Warnings, then one JSON document or what people read. What is not complete says so afterwards, by its `error`."""
    if result is None:  # of several processes, the first has it
        return
    told = result.done if hasattr(result, "done") else result
    for warning in told.get("warnings", ()) if isinstance(told, dict) else ():
        warn(warning)
    if json:
        print_json(result.to_json() if hasattr(result, "to_json") else result)
    else:
        show(options, result)
    if (error := getattr(result, "error", None)) is not None:
        raise error


def parameters(options: type[Options], *, hidden: bool = False) -> list[inspect.Parameter]:
    """One for each field."""
    return [_parameter(one, hidden or one.option.hidden) for one in declarations(options)]


def _parameter(one: Declared, hidden: bool) -> inspect.Parameter:
    several = get_origin(one.kind) is tuple
    kind: Any = one.option.kind or one.kind
    if several:
        kind = list[get_args(one.kind)[0]]  # type: ignore[misc]
    if not one.required and (several or one.option.kind is not None):
        kind = kind | None
    return inspect.Parameter(
        one.name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, _info(one, hidden)],
        default=inspect.Parameter.empty if one.required else None if several else one.default,
    )  # fmt: skip


def _info(one: Declared, hidden: bool) -> Any:
    option = one.option
    said: dict[str, Any] = {
        "help": option.help, "metavar": option.metavar, "rich_help_panel": option.panel or None, "hidden": hidden,
        "autocompletion": _completion(option), "readable": False,
    }  # fmt: skip
    if isinstance(option, Argument):
        return typer.Argument(show_default=False, **said)
    return typer.Option(one.flag, **said)


def _completion(option: Option) -> Callable[..., list[str]] | None:
    if callable(option.values):
        return _asking(option.values)
    names = list(option.values)
    return (lambda: names) if names else None


def _asking(offered: Offered) -> Callable[..., list[str]]:
    def complete(ctx: typer.Context) -> list[str]:
        return offered(ctx.params)

    return complete
