"""Trimtab's client for training processes: `client = trimtab.connect()`.

Standard library only. Nothing in it blocks, raises into training, or needs an agent to be there.
"""
from .annotation import Annotation, annotate
from .client import Client, connect
from .learning_guard import LearningGuard
from .out_of_memory import is_out_of_memory
from .plan_change import Change, Refused

__all__ = ["Annotation", "Change", "Client", "LearningGuard", "Refused", "annotate", "connect", "is_out_of_memory"]
