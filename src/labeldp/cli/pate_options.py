"""The options of `labeldp pate`, by group."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli.complete import DATASETS, MODELS, PATE_PRESETS, among, data_sets
from labeldp.cli.options import DATA as _DATA
from labeldp.cli.options import MACHINE as _MACHINE

# fmt: off
_TEACHERS, _ANSWERS, _STUDENT = "Teachers", "Answers", "Students"

DatasetOption = Annotated[str | None, typer.Option("--dataset", help="digits, fashion, cifar10 or cifar100.", rich_help_panel=_DATA, autocompletion=among(*DATASETS))]
DataOption = Annotated[Path | None, typer.Option("--data", help="Where the data set's files are. Default: $LABELDP_DATA.", readable=False, rich_help_panel=_DATA)]
FirstOption = Annotated[int | None, typer.Option("--first", help="Of a bundled data set, only the first so many rows.", rich_help_panel=_DATA)]
CanariesOption = Annotated[int | None, typer.Option("--canaries", help="With --dataset: plant so many labels, and audit the answers and the first student for them.", rich_help_panel=_DATA)]
CandidatesOption = Annotated[int | None, typer.Option("--candidates", help="With --canaries: labels to choose each from. Default: 2.", rich_help_panel=_DATA)]
FeaturesOption = Annotated[Path | None, typer.Option("--features", help="Your own public features: as for train.", readable=False, rich_help_panel=_DATA)]
LabelsOption = Annotated[Path | None, typer.Option("--labels", help="A Parquet or CSV file with the private labels, in the features' order or with an id.", readable=False, rich_help_panel=_DATA)]
LabelOption = Annotated[str | None, typer.Option("--label", help="The column that holds the label.", rich_help_panel=_DATA)]
ClassesOption = Annotated[str | None, typer.Option("--classes", help="How many classes, or their names: as for release.", rich_help_panel=_DATA)]
IdOption = Annotated[str | None, typer.Option("--id", help="The id column of labels and features.", rich_help_panel=_DATA)]
ImageSizeOption = Annotated[int | None, typer.Option("--image-size", help="For a folder of images.", rich_help_panel=_DATA)]
DataSetOption = Annotated[str | None, typer.Option("--data-set", help="What the ledger knows these labels by. Default: the label file's stem.", rich_help_panel=_DATA, autocompletion=data_sets)]
LedgerOption = Annotated[Path | None, typer.Option("--ledger", help="The ledger file, for your own labels; a bundled data set has one in the run.", readable=False, rich_help_panel=_DATA)]
HoldoutOption = Annotated[float, typer.Option("--holdout", help="The share of rows, the last ones, that is kept from the teachers: to judge the student where there is no public test set.", rich_help_panel=_DATA)]
PresetOption = Annotated[str | None, typer.Option("--preset", help="A row of the paper's PATE table: pate-cifar10-high …; options given beside it win.", autocompletion=among(*PATE_PRESETS))]
TeachersOption = Annotated[int | None, typer.Option("--teachers", help="How many; each sees its own shard of the labels.", rich_help_panel=_TEACHERS)]
MethodOption = Annotated[str | None, typer.Option("--method", help="frozen: linear teachers on fixed features (of images: learned from the images alone), seconds for all. fixmatch: a model each (PATE-FM). Default: frozen; with a preset fixmatch.", rich_help_panel=_TEACHERS, autocompletion=among("frozen", "fixmatch"))]
ModelOption = Annotated[str | None, typer.Option("--model", help="With --method fixmatch: as for train.", rich_help_panel=_TEACHERS, autocompletion=among(*MODELS))]
EpochsOption = Annotated[int | None, typer.Option("--epochs", help="With --method fixmatch: passes over all features, each teacher.", rich_help_panel=_TEACHERS)]
ContrastiveOption = Annotated[int, typer.Option("--contrastive", help="For frozen features of images: also learn by contrast for so many epochs (6), from the images alone. Takes a while; helps photographs.", rich_help_panel=_TEACHERS)]
SeedOption = Annotated[int, typer.Option("--seed", help="Of shards, questions and trainings; never of the noise.", rich_help_panel=_TEACHERS)]
AskedOption = Annotated[int | None, typer.Option("--max-asked", help="Ask about at most so many rows: a cap, charged whether reached or not.", rich_help_panel=_ANSWERS)]
AnsweredOption = Annotated[int | None, typer.Option("--max-answered", help="Answer at most so many: a cap, charged whether reached or not.", rich_help_panel=_ANSWERS)]
Sigma1Option = Annotated[float | None, typer.Option("--sigma1", help="Noise of the threshold, in votes.", rich_help_panel=_ANSWERS)]
Sigma2Option = Annotated[float | None, typer.Option("--sigma2", help="Noise of each class's votes.", rich_help_panel=_ANSWERS)]
ThresholdOption = Annotated[float | None, typer.Option("--threshold", help="Answer only where about so many teachers agree: 10% to 75% of them.", rich_help_panel=_ANSWERS)]
DeltaOption = Annotated[float, typer.Option("--delta", help="δ at which ε is stated.", rich_help_panel=_ANSWERS)]
AccuracyOption = Annotated[float, typer.Option("--answer-accuracy", help="A public belief of how often answers are right, for the student's evidence; 1 takes them at their word. Do not measure it.", rich_help_panel=_ANSWERS)]
HoldoutEpsilonOption = Annotated[float | None, typer.Option("--holdout-epsilon", help="Release the rows kept by --holdout under k-subset at this ε: a separate charge.", rich_help_panel=_ANSWERS)]
BudgetOption = Annotated[float | None, typer.Option("--budget", help="A cap on the pure ε of every row, for your own labels.", rich_help_panel=_ANSWERS)]
BudgetGaussianOption = Annotated[float | None, typer.Option("--budget-gaussian", help="A cap on the Gaussian part's ε at --delta, for your own labels.", rich_help_panel=_ANSWERS)]
RaiseOption = Annotated[bool, typer.Option("--raise-budget", help="Record that the caps are raised, and go on.", rich_help_panel=_ANSWERS)]
NameOption = Annotated[str, typer.Option("--name", help="What the students' directories are called: NAME-1 …; another name for another try.", rich_help_panel=_STUDENT)]
AgainOption = Annotated[str | None, typer.Option("--again", help="'charge' releases rows a second time, at a second cost.", rich_help_panel=_ANSWERS, autocompletion=among("charge"))]
InsecureSeedOption = Annotated[int | None, typer.Option("--insecure-seed", help="Repeatable noise, for experiments.", rich_help_panel=_ANSWERS)]
PublishOption = Annotated[str | None, typer.Option("--publish-data-dependent", help="Also publish a data-dependent ε, sanitised: ORDER,BETA,SIGMA[,MARGIN] of its noise (5,0.02,8). It costs extra, which is charged, and seldom pays.", rich_help_panel=_ANSWERS)]
StudentsOption = Annotated[int, typer.Option("--students", help="Train so many; the summary has mean ± std.", rich_help_panel=_STUDENT)]
StudentOption = Annotated[str, typer.Option("--student", help="fixmatch (answers, and all features unlabelled) or evidence (answers alone).", rich_help_panel=_STUDENT, autocompletion=among("fixmatch", "evidence"))]
StudentModelOption = Annotated[str | None, typer.Option("--student-model", help="As for train. Default: the teachers' model; mlp with frozen ones, on their features.", rich_help_panel=_STUDENT, autocompletion=among(*MODELS))]
StudentEpochsOption = Annotated[int | None, typer.Option("--student-epochs", help="Passes over all features.", rich_help_panel=_STUDENT)]
ProcessesOption = Annotated[int, typer.Option("--processes", help="Teachers at a time, one thread each; 0 trains them in this process.", rich_help_panel=_MACHINE)]
RayOption = Annotated[str | None, typer.Option("--ray", help="Train teachers on an existing Ray cluster: auto, ray://host:10001, or local. It receives shards of true labels, so it must lie inside the label owner's trust boundary.", rich_help_panel=_MACHINE)]
OutOption = Annotated[Path, typer.Option("--out", help="The run directory; interrupted, the same command goes on.", readable=False)]
RunArgument = Annotated[Path, typer.Argument(help="The run directory.", show_default=False, readable=False)]
