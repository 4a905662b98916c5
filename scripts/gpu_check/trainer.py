"""Asks the process of torch_programs.py for runs."""
import json
import os
import pathlib
import select
import subprocess
import sys

from . import child
from .sections import Failed

PROGRAM = pathlib.Path(__file__).with_name("torch_programs.py")


class Trainer:
    """One server process; run() is one process forked from it. Close it at the end."""

    def __init__(self, environment, errors):
        self._environment, self._errors = environment, errors
        self._process = None
        self._serve()

    def _serve(self):
        self._unread = b""
        self._process = subprocess.Popen([sys.executable, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=self._errors, env=self._environment, start_new_session=True)

    def start(self, environment, program, settings):
        """Begin a run; finish() must follow before the next."""
        if self._process is None:
            self._serve()
        request = {"program": program, "environment": environment, "settings": settings}
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise Failed(f"the process with PyTorch is gone: see {self._errors.name}") from error

    def finish(self, budget):
        """The result of the run that was begun; raises Failed where it failed or takes too long."""
        answer = {}
        while "ended" not in answer:
            answer.update(self._answer(budget))
        if "error" in answer:
            raise Failed(answer["error"])
        if "result" not in answer or answer["ended"] != 0:
            raise Failed(f"the process ended with {answer['ended']} (negative: a signal); see {self._errors.name}")
        return answer["result"]

    def answered(self, seconds):
        """Whether the run that was begun has told something, within so many seconds: finish() will not wait for long."""
        return bool(self._unread) or bool(select.select([self._process.stdout], [], [], seconds)[0])

    def run(self, environment, settings, budget, program):
        self.start(environment, program, settings)
        return self.finish(budget)

    def _answer(self, budget):
        # Lines are cut here: a buffered stream could hold a second line that select() does not see.
        while b"\n" not in self._unread:
            if not select.select([self._process.stdout], [], [], budget.left())[0]:
                self.close()  # Its late answer must not be taken for the next run's.
                raise Failed("the process with PyTorch did not answer within the budget")
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise Failed(f"the process with PyTorch is gone: see {self._errors.name}")
            self._unread += chunk
        line, self._unread = self._unread.split(b"\n", 1)
        return json.loads(line)

    def close(self):
        if self._process is not None:
            child.end(self._process)
            self._process = None
