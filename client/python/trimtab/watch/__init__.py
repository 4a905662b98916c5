"""Watches a training process that its user launched, without a line of the user's code.

watch_hook/sitecustomize.py loads it when PyTorch is imported. Hooks say when a part of a step begins and ends, and the
session tells the agent. It never steers, waits, synchronises a GPU or raises into the process.
"""
