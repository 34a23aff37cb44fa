"""`labeldp plan`: what each mechanism would carry, and which to take."""

from __future__ import annotations

from typing import Annotated

import typer

from labeldp.cli.options import ClassesOption, DeltaOption, JsonOption, PriorOption, read_prior
from labeldp.cli.output import number, print_json, print_table


def command(
    classes: ClassesOption,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The ε to spend on each label; typically 1 to 8.")],
    delta: DeltaOption = None,
    prior: PriorOption = None,
    json: JsonOption = False,
) -> None:
    """Show what each mechanism would carry at this ε, and which to take. Looks at no labels."""
    import math

    from labeldp.mechanisms.plan import plan
    from labeldp.release.classes import Classes

    declared = Classes.parse(classes)
    result = plan(epsilon, declared.count, prior=read_prior(prior, declared), delta=delta)
    if json:
        print_json(result.to_json())
        return
    rows = []
    for option in sorted(result.options, key=lambda o: -o.information):
        g = option.mechanism.guarantee()
        shown = {k: v for k, v in option.mechanism.parameters().items() if not isinstance(v, str) and k != "delta"}
        rows.append((
            ("→ " if option.mechanism == result.recommended else "  ") + option.mechanism.name,
            f"{option.information:.4f}",
            f"{option.information / math.log(declared.count):.1%}",
            number(g.epsilon),
            "0" if not g.delta else f"{g.delta:g}",
            str(option.mechanism.observation_bytes),
            ", ".join(f"{k} {number(v)}" for k, v in shown.items()),
        ))  # fmt: skip
    print_table(
        ("mechanism", ">nats a row", ">of log C", ">ε", ">δ", ">bytes a row", "parameters"),
        rows,
        f"{declared.count} classes, ε = {number(epsilon)}: information about one label",
    )
    typer.echo(f"take {result.recommended.name}: it carries the most" + (" without a δ." if delta is None else "."))
    for name, why in result.skipped.items():
        typer.echo(f"{name} is left out: {why}")
