"""Starts programs of PyTorch as forks of a process that has loaded it and the trainer: loading it takes a program over a second of
a processor, and these tests start some hundred. Each is a process of its own, with its own arguments, environment, output
and exit status, as if it had been started afresh. It holds less, though: of libraries only what it touches itself."""
import faulthandler
import gc
import multiprocessing
import multiprocessing.forkserver
import os
import runpy
import subprocess
import sys
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = [os.path.join(ROOT, "trainer"), os.path.join(ROOT, "client", "python"), os.path.dirname(os.path.abspath(__file__))]
LOADED = ["train", "benchmark", "describe", "train_plans"]
# Gloo's thread spins while another holds what it wants, which a third may have taken the processor from: a fifth of the time of
# ranks that share cores. As batch work they take it from each other seldom. All that is started from here on inherits that.
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


class Program:
    """A running or ended program; as subprocess.Popen, with both outputs in files whose names begin with `files`."""

    def __init__(self, words, files, environment=os.environ):
        self._files = [f"{files}.output", f"{files}.errors"]
        with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(FOLDERS)):
            multiprocessing.forkserver.set_forkserver_preload(LOADED)
            multiprocessing.forkserver.ensure_running()  # One for all programs; it ends with this process.
        self._process = multiprocessing.get_context("forkserver").Process(
            target=_run, args=(words, self._files, dict(environment)), daemon=True)
        self._process.start()
        self.kill = self._process.kill

    @property
    def returncode(self):
        """None while it runs; -N where signal N ended it."""
        return self._process.exitcode

    def send_signal(self, number):
        os.kill(self._process.pid, number)

    def wait(self, timeout=None):
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self._files[0], timeout)
        return self.returncode

    def communicate(self, timeout=None):
        """(output, errors) when it has ended."""
        self.wait(timeout)
        texts = []
        for path in self._files:
            with open(path, encoding="utf-8") as file:
                texts.append(file.read())
        return tuple(texts)


class FreshProgram(subprocess.Popen):
    """The same without a fork, where it matters how much a program holds."""

    def __init__(self, words, environment):
        super().__init__([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def kill(self):
        super().kill()
        self.wait()
        self.stdout.close()
        self.stderr.close()


def _run(words, files, environment):
    """In the new process: `words` are the program's file and its arguments."""
    assert set(LOADED) <= set(sys.modules), "the process that is forked could not load the trainer"
    gc.freeze()  # A collection would copy all pages of what was loaded.
    for descriptor, path in enumerate(files, 1):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    if "PYTHONFAULTHANDLER" in environment:
        faulthandler.enable()
    sys.argv, sys.orig_argv = list(words), [sys.executable, *words]
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    runpy.run_path(words[0], run_name="__main__")
