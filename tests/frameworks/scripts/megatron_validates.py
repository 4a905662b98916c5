"""What Megatron-LM's own checks say of arguments: megatron_validates.py SOURCES. Each line of standard input is
{"arguments": [...], "world": 8, "environment": {...}}; each line of standard output is "" or what they object."""
import json
import os
import sys

import megatron_on_cpu


def objection(case, arguments):
    sys.argv = ["pretrain_gpt.py", *case["arguments"]]
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(case["environment"], WORLD_SIZE=str(case["world"]), RANK="0")
    try:
        args = arguments.parse_args()
        arguments.validate_args(args)
        arguments.core_transformer_config_from_args(args)
    except (AssertionError, ValueError, RuntimeError, NotImplementedError) as error:
        return f"{type(error).__name__}: {error}"
    except SystemExit:  # argparse has said why
        return "argparse refuses them"
    return ""


def main():
    said, sys.stdout = sys.stdout, sys.stderr  # Megatron-LM prints what it changes.
    sys.path.insert(0, sys.argv[1])
    megatron_on_cpu.prepare()
    from megatron.training import arguments

    with megatron_on_cpu.OnCpu():
        for line in sys.stdin:
            print(json.dumps(objection(json.loads(line), arguments)), file=said, flush=True)


main()
