"""`labeldp plan`: what each mechanism would carry, and which to take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli.options import ClassesOption, DeltaOption, JsonOption, PriorOption, read_prior
from labeldp.cli.output import number, print_json, print_table


def command(
    classes: ClassesOption,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The ε to spend on each label; typically 1 to 8.")],
    delta: DeltaOption = None,
    prior: PriorOption = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            help="Write a page, one file that needs no server, on which classes, ε and class balance can be changed.",
            readable=False,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show what each mechanism would carry at this ε, and which to take. Looks at no labels."""
    from labeldp.mechanisms.plan import plan
    from labeldp.release.classes import Classes

    declared = Classes.parse(classes)
    shares = read_prior(prior, declared)
    result = plan(epsilon, declared.count, prior=shares, delta=delta)
    if html is not None:
        from labeldp.report.plan_page import plan_page, write_plan_page

        write_plan_page(html, plan_page(result, prior=shares, delta=delta, class_names=declared.names))
    if json:
        print_json(result.to_json() | ({} if html is None else {"html": str(html)}))
        return
    rows = []
    for option in sorted(result.options, key=lambda o: (o.mechanism != result.recommended, -o.information)):
        g = option.mechanism.guarantee()
        rows.append((
            ("> " if option.mechanism == result.recommended else "  ") + option.mechanism.name,
            f"{option.information:.4f}",
            f"{option.information / result.prior_entropy:.1%}" if result.prior_entropy else "",
            f"{option.flip_probability:.1%}",
            f"{g.epsilon:.4g}" + (f", {g.delta:g}" if g.delta else ""),
            str(option.mechanism.observation_bytes),
            option.mechanism.describe(),
        ))  # fmt: skip
    under = "a uniform prior" if prior is None else f"the prior in {prior}"
    typer.echo(
        f"{declared.count} classes, ε = {number(epsilon)}: what one observation tells about its label, in nats,\n"
        f"and as a share of the {result.prior_entropy:.4f} nats that there are to tell under {under}"
    )
    print_table(("mechanism", ">nats", ">share", ">flipped", ">ε, δ", ">bytes", "what is released"), rows)
    typer.echo("flipped: how often the class for which an observation speaks most is not the label")
    typer.echo(f"take {result.recommended.name}: it carries the most" + (" without a δ." if delta is None else "."))
    for name, why in result.skipped.items():
        typer.echo(f"{name} is left out: {why}")
    if html is not None:
        typer.echo(f"page: {html}")
