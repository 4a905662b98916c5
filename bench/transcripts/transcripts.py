"""Public training scripts, unmodified, watched and tuned by Trimtab: makes the files in bench/results/transcripts.

    python3 -m venv VENV && VENV/bin/pip install hydra-core==1.3.2 boto3 fire loguru sh pytz datasets==4.4.1 torchdata==0.11.0 spmd_types==0.2.3 tensorboard    # and scripts/frameworks.txt
    TRIMTAB_SOURCES=FOLDER bench/transcripts/transcripts.py --python VENV/bin/python [--only nanogpt] [--programs build/release/bin]

FOLDER has the sources as nanoGPT, examples (pytorch/examples) and DeepSpeedExamples; torchtitan is a package of VENV. Each is copied and given made-up data in its own format. Then
`trimtab run` and `trimtab tune` have its command, and at last the plain command runs with and without what tuning adopted, in turn.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUT = ROOT / "bench" / "results" / "transcripts"
NANO_DATA = """
import pickle
import numpy
random = numpy.random.default_rng(1)
for name, count in (("train", 1000000), ("val", 100000)):
    random.integers(0, 65, count, dtype=numpy.uint16).tofile(f"data/shakespeare_char/{name}.bin")
with open("data/shakespeare_char/meta.pkl", "wb") as file:
    pickle.dump({"vocab_size": 65, "itos": {}, "stoi": {}}, file)
"""
TEXT_DATA = """
import random
words = "the model learns from text that nobody wrote and says what a reader would expect of words in a row".split()
choice = random.Random(1)
with open("data/text.txt", "w") as file:
    for _ in range(200):
        print(" ".join(choice.choice(words) for _ in range(12)), file=file)
"""
HELLO_DATA = """
import json, pathlib, random
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words = "the model learns from text that nobody wrote and says what a reader would expect of words in a row".split()
special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(special + sorted(set(words)))}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", cls_token="<s>", pad_token="<pad>", eos_token="</s>", sep_token="</s>",
                        unk_token="<unk>", mask_token="<mask>").save_pretrained("tokenizer")
folder = pathlib.Path("wikitext")
folder.mkdir()
(folder / "README.md").write_text("---\\nconfigs:\\n- config_name: wikitext-2-v1\\n  data_files:\\n  - split: train\\n    path: train.jsonl\\n---\\n")
choice = random.Random(1)
with open(folder / "train.jsonl", "w") as file:
    for _ in range(4000):
        print(json.dumps({"text": " ".join(choice.choice(words) for _ in range(60))}), file=file)
"""
TITAN_DATA = """
import json, os, random
from tokenizers import Tokenizer, models, pre_tokenizers
words = "the model learns from text that nobody wrote and says what a reader would expect of words in a row".split()
tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(sorted({"<s>", "</s>", *words}))}, unk_token="<s>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
os.mkdir("tokenizer")
tokenizer.save("tokenizer/tokenizer.json")
choice = random.Random(1)
with open("data/text.json", "w") as file:
    for _ in range(2000):
        print(json.dumps({"text": " ".join(choice.choice(words) for _ in range(200))}), file=file)
"""


class Case:
    """`first` is run as it is before tuning, where a job can only be tuned that has a checkpoint."""

    def __init__(self, title, source, data, command, knobs, step, first="", tune="", flags=""):
        self.title, self.source, self.data, self.command, self.knobs = title, source, data, command, knobs
        self.step, self.first, self.tune, self.flags = step, first, tune or command, flags


NANO = ("python train.py config/train_shakespeare_char.py --device=cpu --compile=False --dtype=float32 --eval_iters=2 --eval_interval=50 "
        "--always_save_checkpoint=True --log_interval=1 --block_size=32 --batch_size=1 --gradient_accumulation_steps=32 --n_layer=2 --n_head=4 "
        "--n_embd=64 --dropout=0.0 --lr_decay_iters=3000")
TRAINER = ("torchrun --nproc_per_node 2 clm_trainer.py --per_device_train_batch_size 2 --gradient_accumulation_steps 8 --use_cpu "
           "--save_steps 50 --save_total_limit 2 --logging_steps 10 --report_to none --disable_tqdm True")
MINGPT = ("torchrun --nproc_per_node 2 without_gpus.py mingpt/main.py data_config.path=data/text.txt data_config.block_size=32 "
          "data_config.truncate=1 gpt_config.n_layer=2 gpt_config.n_head=4 gpt_config.n_embd=64 trainer_config.use_amp=False "
          "trainer_config.save_every=1 trainer_config.batch_size=64 trainer_config.data_loader_workers=0")
HELLO = ("torchrun --nproc_per_node 1 train_bert_ds.py --dtype bf16 --log_every 5")
TITAN = ("torchrun --nproc_per_node 2 torchtitan_on_cpu.py --module llama3 --config llama3_debugmodel --parallelism.spmd_backend partial_dtensor "
         "--validator.no-enable --training.local_batch_size 1 --training.global_batch_size 8 --training.seq_len 64 --debug.seed 1 "
         "--hf_assets_path tokenizer --dataloader.dataset_path data --checkpoint.enable --checkpoint.interval 20")
HELLO_SIZES = "--tokenizer tokenizer --num_layers 2 --h_dim 64 --ff_dim 128 --num_heads 4 --max_seq_length 64 --checkpoint_every 20"
CASES = {
    "nanogpt": Case(
        "nanoGPT's train.py", "nanoGPT", NANO_DATA, f"{NANO} --max_iters=40",
        ["batch=" + ",".join(f"arg:--batch_size={one} arg:--gradient_accumulation_steps={32 // one}" for one in (1, 8, 32))],
        r"iter \d+: loss .*, time ([\d.]+)ms", first=f"{NANO} --max_iters=51 --out_dir=kept",
        tune=f"{NANO} --max_iters=3000 --out_dir=kept --init_from=resume"),
    "trainer": Case(
        "transformers' Trainer", "", "", f"{TRAINER} --max_steps 40 --output_dir watched", [],
        r"'train_steps_per_second': '?([\d.]+)", tune=f"{TRAINER} --max_steps 3000 --output_dir kept"),
    "mingpt": Case(
        "pytorch/examples' minGPT-ddp", "examples/distributed/minGPT-ddp", TEXT_DATA, f"{MINGPT} trainer_config.max_epochs=1",
        ["arg:trainer_config.data_loader_workers=0,2@exact", "OMP_NUM_THREADS=1,2"], "",
        tune=f"{MINGPT} trainer_config.max_epochs=36 trainer_config.snapshot_path={{checkpoint}}/snapshot.pt",
        flags="--steps 3000 --checkpoint kept"),
    "deepspeed": Case(
        "DeepSpeedExamples' HelloDeepSpeed", "DeepSpeedExamples/training/HelloDeepSpeed", HELLO_DATA,
        f"{HELLO} {HELLO_SIZES} --checkpoint_dir watched --num_iterations 60", ["OMP_NUM_THREADS=1,2"], "",
        first=f"{HELLO} {HELLO_SIZES} --checkpoint_dir saved --num_iterations 21",
        tune=f"{HELLO} --load_checkpoint_dir={{checkpoint}} --num_iterations={{steps}}", flags="--steps 2000 --checkpoint kept"),
    "torchtitan": Case(
        "torchtitan's debug model", "", TITAN_DATA, f"{TITAN} --training.steps 40 --dump_folder watched",
        ["arg:--training.local_batch_size=1,2,4"], r"tps: ([\d,]+)", first=f"{TITAN} --training.steps 21 --dump_folder kept",
        tune=f"{TITAN} --training.steps 3000 --dump_folder={{checkpoint}}", flags="--steps 3000 --checkpoint kept"),
}
NOISE = (r"\[?W\d|.*(Warning|warnings\.warn|\[WARNING\]|OMP_NUM_THREADS environment|barrier using|^\s*scaler = )|\*{5,}|.*\[INFO\]|"
         r"Overriding|phase:|ranks: launch")


def shown(text, folder, most=40):
    """Its first and last lines, without what frameworks say to everybody and the places of this machine."""
    lines = [line.rsplit("\r", 1)[-1].rstrip() for line in text.split("\n")]
    lines = [line for line in lines if line and not re.match(NOISE, line)]
    if len(lines) > most:
        lines = [*lines[:8], f"… {len(lines) - most} lines …", *lines[8 - most:]]
    return "\n".join(lines).replace(str(folder), "~").replace(str(ROOT), "~/trimtab")


class Story:
    def __init__(self, case, given):
        self.case, self.folder, self.parts = case, pathlib.Path(tempfile.mkdtemp(prefix="transcript-")), []
        places = self.folder / "bin"
        self.work = self.folder / "job"
        self.python = str(given.python.absolute())
        if case.source:
            shutil.copytree(pathlib.Path(os.environ["TRIMTAB_SOURCES"]) / case.source, self.work, symlinks=True)
        self.work.mkdir(exist_ok=True)
        (self.work / "data").mkdir(exist_ok=True)
        for script in (HERE / "clm_trainer.py", HERE / "without_gpus.py", ROOT / "tests/frameworks/scripts/torchtitan_on_cpu.py"):
            shutil.copy(script, self.work)
        places.mkdir()
        for name in ("python", "python3"):
            (places / name).write_text(f'#!/bin/sh\nexec "{given.python.absolute()}" "$@"\n')
        (places / "torchrun").write_text(f'#!{given.python.absolute()}\nfrom torch.distributed.run import main\nmain()\n')
        for one in places.iterdir():
            one.chmod(0o755)
        self.environment = {"PATH": f"{places}:{given.programs.resolve()}:{given.python.absolute().parent}:{os.environ['PATH']}",
                            "HOME": str(self.folder), "TERM": "dumb", "TRIMTAB_RUN_AS_ROOT": "true", "OMP_NUM_THREADS": "1",
                            "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        if "TORCH_EXTENSIONS_DIR" in os.environ:  # DeepSpeed compiles its CPU Adam there, which takes minutes
            self.environment["TORCH_EXTENSIONS_DIR"] = os.environ["TORCH_EXTENSIONS_DIR"]

    def run(self, command, seconds, environment=None):
        begin = time.monotonic()
        done = subprocess.run(["timeout", "-s", "INT", str(seconds), "bash", "-c", command], cwd=self.work, text=True, check=False,
                              env={**self.environment, **(environment or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(f"{time.monotonic() - begin:5.0f} s  exit code {done.returncode}  {command[:100]}", file=sys.stderr, flush=True)
        return done

    def tell(self, words, command, seconds, most=40):
        done = self.run(command, seconds)
        code = f"\n(exit code {done.returncode})" if done.returncode else ""
        self.parts += [words, "", "```", f"$ {command}", shown(done.stdout.replace(self.python, "python"), self.folder, most) + code, "```", ""]
        return done

    def made(self):
        if self.case.data and self.run(f"python - <<'EOF'{self.case.data}EOF", 300).returncode:
            sys.exit("the made-up data could not be written")

    def tuned(self, seconds):
        """What tuning adopted: {} where it kept what is written, None where it did not end."""
        if self.case.first:
            self.run(self.case.first, seconds)
        for made in self.work.glob("saved/*"):
            made.rename(self.work / "kept")
        (self.work / "kept").mkdir(exist_ok=True)
        knobs = " ".join(f"--knob '{knob}'" for knob in self.case.knobs)
        words = " ".join(one for one in ("trimtab tune --allow-restarts --overhead 0.7", self.case.flags, knobs) if one)
        self.tell("Have its knobs tried. Trials restart the job from copies of its checkpoint.", f"{words} -- {self.case.tune}", seconds, 60)
        self.run("trimtab down", 120)
        report = self.work / "out" / "report.json"
        return json.loads(report.read_text())["adopted"]["plan"].get("own", {}) if report.exists() else None

    def plain(self, own, seconds):
        """Medians of the script's own step times, without Trimtab: as written and with what was adopted, in turn."""
        times = {False: [], True: []}
        for adopted in (False, True, False, True):
            command, environment = self.case.command, {}
            for key, value in own.items() if adopted else ():
                name = key.partition(":")[2]
                if key.startswith("env:"):
                    environment[name] = value
                else:
                    command = re.sub(rf"({re.escape(name)}[= ])\S+", rf"\g<1>{value}", command)
            shutil.rmtree(self.work / "watched", ignore_errors=True)
            shutil.rmtree(self.work / "out-shakespeare-char", ignore_errors=True)
            found = [float(one.replace(",", "")) for one in re.findall(self.case.step, self.run(command, seconds, environment).stdout)]
            times[adopted] += found[min(5, len(found) // 2):]
        return [statistics.median(times[adopted]) if times[adopted] else None for adopted in (False, True)]


def words_of(own):
    return ", ".join(f"{key.partition(':')[2]}={value}" for key, value in own.items())


def load():
    return f"{os.getloadavg()[0]:.1f}"


def tell(name, case, given):
    story = Story(case, given)
    before = load()
    story.made()
    story.tell("See what it does.", f"trimtab run --name {name} -- {case.command}", given.seconds)
    own = story.tuned(given.seconds)
    gain = ""
    if own and case.step:
        written, adopted = story.plain(own, given.seconds)
        per_second = "ms" not in case.step
        ratio = (adopted / written if per_second else written / adopted) if written and adopted else None
        unit = "tokens a second" if "tps" in case.step else "steps a second" if per_second else "ms a step"
        if ratio:
            gain = (f"By the script's own log, without Trimtab, two runs each in turn: {written:.4g} {unit} as written, {adopted:.4g} with "
                    f"{words_of(own)}. That is {ratio:.2f} times as fast.\n")
    head = [f"# {case.title}", "", f"Made by `bench/transcripts/transcripts.py --only {name}` on a machine of {os.cpu_count()} cores. Its load average was "
            f"{before} at the beginning and {load()} at the end.", "Data are made up. Lines that frameworks say to everybody are left out.", ""]
    OUT.mkdir(exist_ok=True)
    (OUT / f"{name}.md").write_text("\n".join([*head, *story.parts, gain]).rstrip("\n") + "\n", encoding="utf-8")
    shutil.rmtree(story.folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--python", type=pathlib.Path, required=True)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--seconds", type=int, default=600, help="that a command may take")
    given = parser.parse_args()
    for name, case in CASES.items():
        if given.only in (None, name):
            tell(name, case, given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
