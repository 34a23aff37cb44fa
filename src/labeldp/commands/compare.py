"""Every model and every reading of noisy labels on one public table: `labeldp compare`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import DATA, MODEL, PRIVACY, Option, Options
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import DataOption, SeedOption, ThreadsOption, use_threads
from labeldp.commands.train import was_finished
from labeldp.commands.values import COMPARED, READINGS, STATISTICS, TABLES

if TYPE_CHECKING:
    from labeldp.files.summary import TablesSummary


# fmt: off
@dataclass(frozen=True, kw_only=True)
class CompareOptions(Options):
    """What `labeldp compare` is told."""

    dataset: Annotated[str, Option("adult, bank, diabetes, criteo (two classes), diabetes3, digits (more), or cancer (small).", panel=DATA, values=TABLES)]
    out: Annotated[Path, Option("A directory for its releases and its summary; finished, the same command reads it.")]
    data: DataOption = None
    epsilon: Annotated[float | None, Option("The ε of every release. Default: none, clean labels.", panel=PRIVACY)] = None
    model: Annotated[tuple[str, ...], Option("linear, mlp or lightgbm, of rows (the default: all three); moments, clusters, pate or dp-sgd, of a statistic, of answers, of gradients. May be given several times.", panel=MODEL, values=(*COMPARED, *STATISTICS))] = ()
    reading: Annotated[tuple[str, ...], Option("Of rows, only this: naive, inverted, response, laplace, subset or clean; may be given several times. Default: all.", panel=MODEL, values=READINGS)] = ()
    seed: SeedOption = 0
    threads: ThreadsOption = None
# fmt: on


@dataclass(frozen=True)
class Compared:
    """Scores of every fit on true test labels, with the estimates from released ones."""

    summary: TablesSummary
    given: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As in its summary; `given` is said of one that was found."""
        return asdict(self.summary) | ({} if self.given is None else {"given": self.given})


def compare(options: CompareOptions, progress: Progress = SILENT) -> Compared:
    """Compare models, and ways to read noisy labels, on one public table at one ε, by AUC and log loss on true test labels.

    Labels are taken at their word (naive), led back through the channel (inverted), or read as evidence. Needs LightGBM and torch.

    Example: labeldp compare --dataset cancer --epsilon 2 --out compared/
    """
    from labeldp.experiments.compare import Comparing, compare_tables

    use_threads(options.threads)
    found_before = was_finished(options.out).get("given")
    wanted = Comparing(options.dataset, options.epsilon, options.seed, options.model or COMPARED, options.reading)
    with progress.doing("fitting") as shown:
        return Compared(
            compare_tables(
                wanted, options.out, data=options.data, threads=options.threads,
                told=lambda what, done, of: shown.show(f"fitting {what}" if done < of else "fitting", done, of, "fits", lines=20),
            ),
            found_before,
        )  # fmt: skip
