"""Every command: one frozen dataclass of options and one function. The command line is derived from them; Python calls them as they are.

Importing this loads nothing heavy; a function loads what it needs.
"""

from labeldp.commands.audit import AuditOptions, audit
from labeldp.commands.canaries import CanariesOptions, canaries_plant
from labeldp.commands.compare import CompareOptions, compare
from labeldp.commands.download import DownloadOptions, download
from labeldp.commands.experiment import ExperimentOptions, experiment
from labeldp.commands.features import FeaturesOptions, features
from labeldp.commands.games import HeuristicOptions, RepeatOptions, audit_heuristic, audit_repeat
from labeldp.commands.inspect import InspectOptions, inspect
from labeldp.commands.judge import EvaluateOptions, PredictOptions, evaluate, predict
from labeldp.commands.ledger import (
    LedgerGetOptions,
    LedgerShowOptions,
    LedgerVerifyOptions,
    ledger_get,
    ledger_show,
    ledger_verify,
)
from labeldp.commands.moments import MomentsOptions, moments
from labeldp.commands.option import Options
from labeldp.commands.pate import (
    PateAccountOptions,
    PateAggregateOptions,
    PateFeaturesOptions,
    PateRunOptions,
    PateStudentOptions,
    PateTeachersOptions,
    pate_account,
    pate_aggregate,
    pate_features,
    pate_run,
    pate_student,
    pate_teachers,
)
from labeldp.commands.plan import PlanOptions, plan
from labeldp.commands.progress import Progress
from labeldp.commands.release import ReleaseOptions, release
from labeldp.commands.report import ReportOptions, report
from labeldp.commands.reproduce import ReproduceOptions, reproduce
from labeldp.commands.score import ScoreOptions, score
from labeldp.commands.select import SelectOptions, select
from labeldp.commands.train import TrainOptions, train

__all__ = [
    "AuditOptions",
    "CanariesOptions",
    "CompareOptions",
    "DownloadOptions",
    "EvaluateOptions",
    "ExperimentOptions",
    "FeaturesOptions",
    "HeuristicOptions",
    "InspectOptions",
    "LedgerGetOptions",
    "LedgerShowOptions",
    "LedgerVerifyOptions",
    "MomentsOptions",
    "Options",
    "PateAccountOptions",
    "PateAggregateOptions",
    "PateFeaturesOptions",
    "PateRunOptions",
    "PateStudentOptions",
    "PateTeachersOptions",
    "PlanOptions",
    "PredictOptions",
    "Progress",
    "ReleaseOptions",
    "RepeatOptions",
    "ReportOptions",
    "ReproduceOptions",
    "ScoreOptions",
    "SelectOptions",
    "TrainOptions",
    "audit",
    "audit_heuristic",
    "audit_repeat",
    "canaries_plant",
    "compare",
    "download",
    "evaluate",
    "experiment",
    "features",
    "inspect",
    "ledger_get",
    "ledger_show",
    "ledger_verify",
    "moments",
    "pate_account",
    "pate_aggregate",
    "pate_features",
    "pate_run",
    "pate_student",
    "pate_teachers",
    "plan",
    "predict",
    "release",
    "report",
    "reproduce",
    "score",
    "select",
    "train",
]
