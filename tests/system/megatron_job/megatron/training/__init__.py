"""A small program of Megatron-LM's shape (Megatron Core 0.13): what trimtab.megatron and a job file meet there, on CPUs."""
from .training import pretrain
