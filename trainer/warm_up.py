"""One tiny pass through every operator kind, so that the libraries' own memory is resident and is not a plan's."""
import torch

import holding
from config import ModelConfig
from model import Pass, operator_specs
from operator_state import OperatorState, initial


def warm_up(device, precision):
    config = ModelConfig("warm-up", layers=1, hidden=8, heads=2, sequence=8, vocabulary=16, global_batch=1,
                         precision=precision)
    tokens = torch.zeros(1, config.sequence, dtype=torch.int64, device=device)
    x = tokens
    for spec in operator_specs(config):
        state = OperatorState(spec, config, device, initial(spec, config, holding.alone(spec, config), device))
        x = state.module(x, Pass(0, [0], tokens))
    x.backward()
