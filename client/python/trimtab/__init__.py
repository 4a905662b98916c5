"""Trimtab's client for training processes: `client = trimtab.connect()`.

Standard library only. Nothing in it blocks, raises into training, or needs an agent to be there.
"""
from .annotation import Annotation, annotate
from .client import Client, connect
from .learning_guard import LearningGuard
from .plan_change import Change, Refused

__all__ = ["Annotation", "Change", "Client", "LearningGuard", "Refused", "annotate", "connect"]
