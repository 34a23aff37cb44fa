"""What each mechanism would carry: `labeldp plan`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import Option, Options
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import ClassesOption, DeltaOption, PriorOption, declared_classes, read_prior

if TYPE_CHECKING:
    from labeldp.mechanisms.plan import Plan


# fmt: off
@dataclass(frozen=True, kw_only=True)
class PlanOptions(Options):
    """What `labeldp plan` is told."""

    classes: ClassesOption
    epsilon: Annotated[float, Option("The ε to spend on each label; typically 1 to 8.")]
    delta: DeltaOption = None
    prior: PriorOption = None
    html: Annotated[Path | None, Option("Write a page, one file that needs no server, on which classes, ε and class balance can be changed.")] = None
# fmt: on


@dataclass(frozen=True)
class Planned:
    """The plan, for how many classes, and where its page is."""

    plan: Plan
    classes: int
    html: Path | None

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return self.plan.to_json() | ({} if self.html is None else {"html": str(self.html)})


def plan(options: PlanOptions, progress: Progress = SILENT) -> Planned:
    """Show what each mechanism would carry at this ε, and which to take. Looks at no labels."""
    from labeldp.mechanisms.plan import plan as planned

    classes = declared_classes(options.classes)
    shares = read_prior(options.prior, classes)
    found = planned(options.epsilon, classes.count, prior=shares, delta=options.delta)
    if options.html is not None:
        from labeldp.report.plan_page import plan_page, write_plan_page

        page = plan_page(found, prior=shares, delta=options.delta, class_names=classes.names)
        write_plan_page(options.html, page)
    return Planned(found, classes.count, options.html)
