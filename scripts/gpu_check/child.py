"""Child programs with a deadline: they and what they started end when it passes."""
import contextlib
import os
import signal
import subprocess

from .sections import Failed

ERROR_TAIL = 600


def run(words, budget, *, environment=None, directory=None, most_s=None):
    """Standard output of a program that ended well; raises Failed with its last words otherwise."""
    seconds = budget.left() if most_s is None else min(most_s, budget.left())
    return output(words, begin(words, environment, directory), seconds)


def run_together(programs, budget, *, directory=None):
    """The same of several at the same time, [(words, environment)]: all are ended where one fails."""
    begun = []
    try:
        for words, environment in programs:
            begun.append((words, begin(words, environment, directory)))
        return [output(words, process, budget.left()) for words, process in begun]
    finally:
        for _, process in begun:
            if process.returncode is None:
                end(process)


def begin(words, environment, directory):
    """A program that leads a group of its own; end() must follow where output() does not."""
    return subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment, cwd=directory, start_new_session=True)


def output(words, process, seconds):
    """What run() gives, of a program that was begun."""
    try:
        told, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        end(process)
        raise Failed(f"{os.path.basename(str(words[0]))} did not end within {seconds:.0f} s") from None
    if process.returncode != 0:
        raise Failed(f"{' '.join(map(str, words[:3]))} ended with {process.returncode}: {(errors or told).strip()[-ERROR_TAIL:]}")
    return told


def end(process):
    """Ends the process group that this process leads, and waits for it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
        try:
            process.wait(timeout=5)
            break
        except subprocess.TimeoutExpired:
            continue
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):  # what it did not read any more
                stream.close()
