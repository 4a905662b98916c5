"""Print model.json: the model's operators as the tuner sees them."""
import compute_environment  # First: it sets what PyTorch reads when it is loaded.

import argparse
import json
import sys

import torch

import config as model_config
from errors import BadInput
from model import operator_specs, parameter_count
from operator_bench import OperatorBench


# Sums of its output over tensor-parallel ranks that both passes end with. What embedding and head sum differs between
# their passes, and counts as part of them.
_TENSOR_ALL_REDUCES = {"embedding": 0, "attention": 1, "feedforward": 1, "head": 0}


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, help="the model's TOML file")
    return parser.parse_args(words)


def forward_flops(spec, config):
    """Multiplications and additions of matrix products for one sample; the rest is small beside them."""
    tokens, hidden = config.sequence, config.hidden
    return {
        "embedding": 0,
        "attention": 8 * tokens * hidden * hidden + 4 * tokens * tokens * hidden,
        "feedforward": 16 * tokens * hidden * hidden,
        "head": 2 * tokens * hidden * config.vocabulary,
    }[spec.kind]


def model_document(config):
    """The model.json document; each distinct operator is run once to count what it keeps."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    activation_bytes, operators = {}, []
    element_bytes = torch.empty((), dtype=config.dtype).element_size()
    for spec in operator_specs(config):
        if spec.cost_key not in activation_bytes:
            activation_bytes[spec.cost_key] = OperatorBench(spec, config, 1, device).memory()[0]
        is_head = spec.kind == "head"
        operators.append({
            "name": spec.name, "kind": spec.kind, "layer": spec.layer, "cost_key": spec.cost_key, "cut_before": True,
            "shape": {"sequence": config.sequence, "hidden": config.hidden, "heads": config.heads,
                      "vocabulary": config.vocabulary},
            "parameter_bytes": 4 * parameter_count(spec, config),
            "activation_bytes": activation_bytes[spec.cost_key],
            "output_bytes": 4 if is_head else element_bytes * config.sequence * config.hidden,
            "forward_flops": forward_flops(spec, config),
            "shardings": ["default"],
            "tensor_all_reduces": _TENSOR_ALL_REDUCES[spec.kind],
        })
    divisors = [size for size in range(1, config.global_batch + 1) if config.global_batch % size == 0]
    return {
        "schema": "trimtab.model/1", "name": config.name, "dtype": config.precision,
        "global_batch": config.global_batch,
        "microbatch_values": {"total": divisors}, "operators": operators, "tied_parameters": [],
        "gradient_bytes_per_parameter_byte": 1.0, "optimizer_bytes_per_parameter_byte": 2.0,
        "recompute_unit": "operator",  # passes.py keeps the input of each.
    }


def main():
    torch.set_num_threads(1)
    try:
        document = model_document(model_config.load(arguments().config))
    except BadInput as error:
        print(error, file=sys.stderr)
        return error.exit_status
    json.dump(document, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
