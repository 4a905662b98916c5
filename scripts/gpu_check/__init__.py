"""The parts of scripts/gpu-check. Standard library only, except what its child programs import."""
