"""Errors that teach: one sentence that says what is wrong, which row, and what to do; never a label's value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labeldp.renamed import renamed


class LabelDPError(Exception):
    """Anything labeldp refuses or cannot do. `exit_code` is what the command line returns for it."""

    exit_code = 2


class InputError(LabelDPError, ValueError):
    """A parameter, a label file or an array is not usable as given. Nothing was charged, nothing released."""


class FileFormatError(InputError):
    """A release file is truncated, altered, from a newer labeldp, or not a release at all."""


class NoJudgeError(InputError):
    """The mechanism treats classes differently, so accuracy cannot be estimated from what it released."""


class AccountingError(LabelDPError):
    """A privacy cost cannot be stated as asked."""


class LedgerError(LabelDPError):
    """The ledger file cannot be used: unreadable, altered, of another version, or on a full disk."""


class RefusedError(LabelDPError):
    """The request is well-formed, but the ledger does not allow it."""

    exit_code = 3


class BudgetError(RefusedError):
    """The request would spend more than the budget of its data set."""


class AlreadyReleasedError(RefusedError):
    """Some of these rows were released before, and this is not the same request again."""


class LostReleaseError(LedgerError):
    """A release was published, but the ledger's copy of it is gone or damaged."""


class VerificationError(LedgerError):
    """The ledger, or a release that claims to come from it, is not what it was."""

    exit_code = 3


class RepeatedReleaseWarning(UserWarning):
    """The same request was made before: what is returned is the release of that time."""


class LabelsAsRowsWarning(UserWarning):
    """What was given as positions in a release looks like class labels: whatever is trained on that is trained on other rows' noise."""


class WorkerError(LabelDPError):
    """A worker process died. What others finished is kept, and nothing was charged for what is not."""

    exit_code = 1


class UnfinishedError(LabelDPError):
    """A release was charged and then interrupted: by a full disk, a file that changed. The same request finishes it for nothing."""

    exit_code = 4


if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, {"NoMomentsError": "NoJudgeError"})
