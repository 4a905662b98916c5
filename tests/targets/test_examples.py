"""The example jobs' commands, started as agents start them: which device, rank and rendezvous each process then has."""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tomllib
import unittest

import megatron_reader
from program import PROGRAM, ROOT, ProgramTest, run

EXAMPLES = ROOT / "examples"
# In place of the training program: what a framework would see of its launch.
STAND_IN = """
import json, os, sys
seen = {"arguments": sys.argv[1:], "environment": dict(os.environ)}
if os.environ.get("MEET"):
    import datetime, torch, torch.distributed as distributed
    distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=100))
    ranks = [None] * distributed.get_world_size()
    distributed.all_gather_object(ranks, distributed.get_rank())
    seen["met"] = ranks
    distributed.barrier()
    distributed.destroy_process_group()
with open(f"{os.environ['SEEN']}/{os.environ['RANK']}.json", "w") as file:
    json.dump(seen, file)
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def expanded(words, values, target_arguments=()):
    """An argument vector as an agent fills it in (docs/protocols.md)."""
    out = []
    for word in words:
        if word == "{target_arguments}":
            out += target_arguments
        else:
            out.append(re.sub(r"\{([a-z_]+)\}", lambda found: values[found.group(1)], word))
    return out


def device_of(environment, devices_on_node):
    """The GPU of its node that a process of this environment computes on, as PyTorch counts them."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    seen = range(devices_on_node) if visible is None else [int(number) for number in visible.split(",")]
    return seen[int(environment["LOCAL_RANK"])]


class Launches(ProgramTest):
    def job(self, name):
        return tomllib.loads((EXAMPLES / name / "job.toml").read_text(encoding="utf-8"))

    def started(self, job, nodes, program, target_arguments=(), **environment):
        """What each rank's process saw, by rank; `nodes` are the ranks of each."""
        folder = self.folder / f"seen-{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        stand_in = folder / "stand_in.py"
        stand_in.write_text(STAND_IN, encoding="utf-8")
        port, processes, rank = free_port(), [], 0
        inherited = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        for count in nodes:
            for local_rank in range(count):
                values = {"rank": str(rank), "local_rank": str(local_rank), "world_size": str(sum(nodes)),
                          "checkpoint": str(folder / "checkpoint"), "steps": "40", "master_addr": "127.0.0.1"}
                words = [str(stand_in) if word.endswith(program) else port if word == "29517" else word
                         for word in expanded(job["commands"]["train"], values, target_arguments)]
                own = {**inherited, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "client" / "python"), **job["environment"],
                       "SEEN": str(folder), **environment}
                if "MASTER_PORT" in own:
                    own["MASTER_PORT"] = port
                processes.append(subprocess.Popen(words, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                                  text=True, cwd=folder))
                rank += 1
        said = [process.communicate(timeout=200)[1] for process in processes]
        self.assertEqual([process.returncode for process in processes], [0] * rank, said)
        return [json.loads((folder / f"{number}.json").read_text(encoding="utf-8")) for number in range(rank)]

    def assert_places(self, seen, nodes):
        """Each rank knows its number and has a device to itself."""
        rank = 0
        for count in nodes:
            here = [one["environment"] for one in seen[rank : rank + count]]
            self.assertEqual(sorted(device_of(environment, count) for environment in here), list(range(count)))
            self.assertEqual([int(environment["RANK"]) for environment in here], list(range(rank, rank + count)))
            rank += count
        for one in seen:
            self.assertEqual(int(one["environment"]["WORLD_SIZE"]), sum(nodes))
        self.assertEqual(len({(one["environment"]["MASTER_ADDR"], one["environment"]["MASTER_PORT"]) for one in seen}), 1)

    def megatron_arguments(self, job):
        """What the initial plan becomes."""
        folder = EXAMPLES / "megatron"
        words = expanded(job["commands"]["describe"], {})
        self.assertEqual(words[0], "trimtab")
        model = subprocess.run([PROGRAM, *words[1:]], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
        path = self.folder / "model.json"
        path.write_text(model.stdout, encoding="utf-8")
        done = run("plan", "export", folder / job["initial_plan"], "--to", "megatron", "--model", path, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["arguments"]

    def test_megatron_has_a_gpu_for_each_rank_on_one_node_and_on_two(self):
        job = self.job("megatron")
        words = self.megatron_arguments(job)
        for nodes in ([8], [4, 4]):
            with self.subTest(nodes=nodes):
                seen = self.started(job, nodes, "pretrain_gpt.py", words)
                self.assert_places(seen, nodes)
                for one in seen:
                    args, others = megatron_reader.parser().parse_known_args(one["arguments"])
                    self.assertEqual(sum(nodes) % (args.tensor_model_parallel_size * args.pipeline_model_parallel_size), 0)
                    self.assertEqual((args.tensor_model_parallel_size, args.global_batch_size), (2, 512))
                    self.assertIn("--load", others)
                    # A launch ends at its {steps}; what the checkpoint's schedules are tied to stays.
                    words_of = dict(zip(others, others[1:]))
                    self.assertEqual((words_of["--train-iters"], words_of["--exit-interval"]), (str(job["steps"]), "40"))
                    self.assertEqual(one["environment"]["CUDA_DEVICE_MAX_CONNECTIONS"], "1")

    def test_megatron_ranks_meet(self):
        seen = self.started(self.job("megatron"), [2], "pretrain_gpt.py", MEET="1")
        self.assertEqual([one["met"] for one in seen], [[0, 1]] * 2)

    def test_torchrun_ranks_meet_and_each_has_a_gpu(self):
        seen = self.started(self.job("torchrun-ddp"), [2], "train.py", MEET="1")
        self.assert_places(seen, [2])
        self.assertEqual([one["met"] for one in seen], [[0, 1]] * 2)


class MegatronBenchmark(ProgramTest):
    def test_answers_have_the_cost_keys_of_the_model(self):
        """Two real ranks on the CPU, a model of the same words with smaller numbers."""
        example = self.folder / "examples" / "megatron"
        example.mkdir(parents=True)
        shutil.copy(EXAMPLES / "megatron" / "job.toml", example)
        words = (EXAMPLES / "megatron" / "arguments.txt").read_text(encoding="utf-8")
        for big, small in (("2048", "32"), ("16", "4"), ("24", "2"), ("50257", "500"), ("512", "8")):
            words = re.sub(rf"(?<= ){big}\b", small, words)
        (example / "arguments.txt").write_text(words, encoding="utf-8")
        job = tomllib.loads((example / "job.toml").read_text(encoding="utf-8"))
        done = run("model", "extract", "--megatron", example / "arguments.txt", "--name", "megatron-gpt")
        model = json.loads(done.stdout)
        keys = list(dict.fromkeys(operator["cost_key"] for operator in model["operators"]))
        self.assertEqual(len(keys), 4)
        items = [{"kind": "operator", "cost_key": key, "dtype": model["dtype"], "samples": 1, "tp": tp}
                 for key in keys for tp in (1, 2)]
        items += [{"kind": "optimizer", "cost_key": key, "dtype": model["dtype"]} for key in keys]
        items += [{"kind": "collective", "primitive": "all_reduce", "bytes": 4096, "group_size": 2},
                  {"kind": "operator", "cost_key": "pooling-h32", "dtype": model["dtype"], "samples": 1, "tp": 1}]
        requests = self.write("requests.json", {"schema": "trimtab.benchmark_requests/1", "relative_error": 0.5,
                                                "min_repetitions": 2, "max_repetitions": 3, "items": items})
        lines = self.lines_of(job, requests, example)
        for number, item in enumerate(items[:12]):
            costs = [line["cost"] for line in lines if line.get("item") == number and "cost" in line]
            self.assertEqual({cost["subject"] for cost in costs}, {item["cost_key"]}, item)
        self.assertIn("no operator has cost_key", next(line["error"] for line in lines if line.get("item") == 13))
        # Half of the attention's parameters and more, in Megatron's two bytes each.
        whole = next(one["parameter_bytes"] for one in model["operators"] if one["kind"] == "attention")
        (half,) = next(line["values"] for line in lines
                       if line.get("item") == 3 and line["cost"]["kind"] == "operator_parameter_bytes")
        self.assertTrue(whole / 2 <= half < 0.6 * whole, (half, whole))

    def lines_of(self, job, requests, example):
        ranks = []
        for rank in range(2):
            values = {"rank": str(rank), "local_rank": str(rank), "world_size": "2", "requests": str(requests),
                      "rendezvous": f"file://{self.folder}/rendezvous"}
            words = ["cpu" if word == "cuda" else word for word in expanded(job["commands"]["benchmark"], values)]
            ranks.append(subprocess.Popen(words, cwd=example, text=True,
                                          env={**os.environ, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "client" / "python")},
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        said = [rank.communicate(timeout=200) for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0], said)
        return [json.loads(line) for line in said[0][0].splitlines() if line.startswith("{")]


if __name__ == "__main__":
    unittest.main()
