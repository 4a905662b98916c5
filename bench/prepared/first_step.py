"""From a launch to its first step, bare and prepared in turn, of one rank without daemons: this program stands for the agent. It makes the second
table of bench/results/prepared_launches.md. Processor time is the rank's own; that of a prepared launch counts from the moment it is told.

    TRIMTAB_SOURCES=FOLDER bench/prepared/first_step.py --python "$(scripts/setup --frameworks)/bin/python" [--rounds 5] [--only megatron]
"""
import argparse
import array
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / name) for name in ("system", "client_python", "frameworks")]
CLIENT = ROOT / "client" / "python"
TICK = os.sysconf("SC_CLK_TCK")


def commands(folder):
    """By case the words of a command before its program's arguments, and these."""
    import test_megatron_tune as megatron

    python, saved = os.environ["TRIMTAB_TEST_PYTHON"], str(folder / "saved")
    trained = f"{megatron.SHAPE} {megatron.TRAINING} --exit-interval 3 --micro-batch-size 2 --global-batch-size 4"
    trainer = f"--output_dir {saved} --max_steps 3 --use_cpu --report_to none --disable_tqdm True --save_strategy no --per_device_train_batch_size 2"
    plain = f"--output-dir {saved} --max-steps 3 --nap 0 --log {folder / 'log'}"
    return {
        "plain PyTorch": ([python, "-u", str(ROOT / "tests/system/prepared_script.py")], plain.split()),
        "transformers' Trainer": ([python, "-u", str(ROOT / "bench/transcripts/clm_trainer.py")], trainer.split()),
        "Megatron-LM": ([python, "-u", "-m", "trimtab.megatron"],
                        [str(ROOT / "tests/frameworks/scripts/megatron_on_cpu.py"), str(megatron.SOURCES / "pretrain_gpt.py"), *trained.split()]),
    }


def processor_time(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Launch:
    def __init__(self, words, arguments, folder):
        from recording_agent import Agent
        from watched_job import free_port

        (folder / "agent.sock").unlink(missing_ok=True)
        self.agent = Agent(str(folder / "agent.sock"))
        self.words, self.arguments, self.folder = words, arguments, folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRIMTAB", "PYTHON"))}
        self.environment = {**kept, "TRIMTAB_SOCKET": self.agent.path, "TRIMTAB_JOB": "job", "TRIMTAB_WATCH": "1", "TRIMTAB_LAUNCH": "1",
                            "TRIMTAB_IMPORTS": str(folder / "imports"), "PYTHONPATH": f"{CLIENT}/watch_hook:{CLIENT}", "RANK": "0",
                            "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                            "OMP_NUM_THREADS": "1"}

    def start(self, words, output, kept=(), **more):
        return subprocess.Popen(words, env={**self.environment, **more}, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                pass_fds=kept, process_group=0)

    def until_first_step(self, process, began, spent):
        """Seconds of the clock and of the processor from `began` to the first step that is told."""
        while not any(frame["type"] == "step" for frames in self.agent.connections for frame in frames):
            if process.poll() is not None:
                sys.exit((self.folder / "output").read_text()[-3000:])
            time.sleep(0.005)
        took = time.monotonic() - began, processor_time(process.pid) - spent
        process.wait()
        self.agent.close()
        return took

    def bare(self):
        with open(self.folder / "output", "wb") as output:
            began = time.monotonic()
            return self.until_first_step(self.start([*self.words, *self.arguments], output), began, 0)

    def prepared(self):
        ours, theirs = socket.socketpair()
        printed = os.memfd_create("printed")
        process = self.start(self.words, printed, (theirs.fileno(),), TRIMTAB_HELD=str(theirs.fileno()))
        theirs.close()
        said = b""
        while b"ready" not in said:
            part = ours.recv(4096)
            if not part:
                sys.exit(said)
            said += part
        told = os.memfd_create("told")
        texts = [str(len(self.arguments)), *self.arguments, *(f"{name}={value}" for name, value in self.environment.items())]
        os.write(told, b"".join(os.fsencode(text) + b"\0" for text in texts))
        with open(self.folder / "output", "wb") as output:
            began, spent = time.monotonic(), processor_time(process.pid)
            ours.sendmsg([b"1"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [output.fileno(), told]))])
            ours.close()
            return self.until_first_step(process, began, spent)


def told(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", type=pathlib.Path, default=pathlib.Path("/usr/bin/python3"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append")
    given = parser.parse_args()
    os.environ["TRIMTAB_TEST_PYTHON"] = str(given.python.absolute())
    print("| program | launch | rounds | to the first step, s: median (least to most) | processor time, s |\n| --- | --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(prefix="first-step-") as made:
        for case in given.only or commands(pathlib.Path(made)):
            took = {"bare": [], "prepared": []}
            for number in range(given.rounds):
                folder = pathlib.Path(made) / f"{case[:5]}-{number}"
                folder.mkdir()
                for kind in took:
                    words, arguments = commands(folder)[case]
                    took[kind].append(getattr(Launch(words, arguments, folder), kind)())
                    print(case, kind, took[kind][-1], file=sys.stderr, flush=True)
            for kind, several in took.items():
                wall, cpu = zip(*several)
                print(f"| {case} | {kind} | {given.rounds} | {told(wall)} | {told(cpu)} |", flush=True)


if __name__ == "__main__":
    main()
