"""How much does a trained model give away? Numpy only: the label owner runs it."""

from labeldp.audit.canaries import Canaries
from labeldp.audit.measure import audit, audit_paper
from labeldp.audit.result import AuditResult

__all__ = ["AuditResult", "Canaries", "audit", "audit_paper"]
