"""What each mechanism would carry: `labeldp plan`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import Option, Options
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import ClassesOption, DeltaOption, PriorOption, declared_classes, read_prior
from labeldp.errors import InputError

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
    auc_error: Annotated[float, Option("The standard error with which a ROC AUC is to be told; the plan says how many held-out rows that takes.")] = 0.01
    rows: Annotated[int | None, Option("With --columns: how many labels there are. The plan then says whether one noisy statistic (`labeldp moments`, with a δ or --pure) tells more than rows.")] = None
    columns: Annotated[int | None, Option("With --rows: how many columns the features have, once they are numbers.")] = None
    html: Annotated[Path | None, Option("Write a page, one file that needs no server, on which classes, ε and class balance can be changed.")] = None
# fmt: on


@dataclass(frozen=True)
class RowsToJudge:
    """How many held-out rows tell a ROC AUC: by mechanism, and with true labels. Of more than two classes, the rarest against the rest."""

    standard_error: float
    auc: float
    share: float
    true_labels: int
    mechanisms: dict[str, int]


@dataclass(frozen=True)
class Planned:
    """The plan, for how many classes, how many rows judge, and where its page is."""

    plan: Plan
    classes: int
    html: Path | None
    judging: RowsToJudge | None = None  # none where one class has all of the prior
    moments: bool | None = None  # whether moments tell a linear model more than rows; None where nobody asked
    pure: bool | None = None  # and whether a histogram by cluster does, without a δ

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        judging = {"rows_to_judge": None if self.judging is None else asdict(self.judging)}
        moments = {} if self.moments is None else {"moments_beat_rows": self.moments, "pure_beats_rows": self.pure}
        return self.plan.to_json() | judging | moments | ({} if self.html is None else {"html": str(self.html)})


def plan(options: PlanOptions, progress: Progress = SILENT) -> Planned:
    """Show what each mechanism would carry at this ε, and which to take. Looks at no labels."""
    from labeldp.evaluation.rows import check_error
    from labeldp.mechanisms.plan import plan as planned

    error = check_error(options.auc_error)
    classes = declared_classes(options.classes)
    shares = read_prior(options.prior, classes)
    found = planned(options.epsilon, classes.count, prior=shares, delta=options.delta)
    if options.html is not None:
        from labeldp.report.plan_page import plan_page, write_plan_page

        page = plan_page(found, prior=shares, delta=options.delta, class_names=classes.names, auc_error=error)
        write_plan_page(options.html, page)
    return Planned(
        found, classes.count, options.html, _judging(found, shares, error), *_statistics(options, classes.count)
    )


def _statistics(options: PlanOptions, classes: int) -> tuple[bool | None, bool | None]:
    if options.rows is None and options.columns is None:
        return None, None
    if options.rows is None or options.columns is None or min(options.rows, options.columns) < 1:
        raise InputError(
            "`rows` and `columns` go together, and are at least 1: how many labels, and how many numbers beside each."
        )
    from labeldp.statistics.preprocessing_rule import moments_beat_rows, pure_beats_rows

    asked = options.rows, options.columns, classes, options.epsilon
    return moments_beat_rows(*asked, options.delta or 1e-5), pure_beats_rows(*asked)


def _judging(plan: Plan, prior: Sequence[float] | None, error: float) -> RowsToJudge | None:
    from labeldp.evaluation.rows import AUC, rarest_share, rows_for_auc
    from labeldp.mechanisms import NoPrivacy

    share = rarest_share(plan.num_classes, prior)
    if share is None:
        return None
    rows = {one.mechanism.name: rows_for_auc(one.mechanism, share, error) for one in plan.options}
    return RowsToJudge(error, AUC, share, rows_for_auc(NoPrivacy(plan.num_classes), share, error), rows)
