"""A process that a scheduler has started becomes a rank: `srun python3 -m trimtab.slot` (docs/slurm.md).

It asks the agent on its node which rank it is and what that runs, and runs it in its own place: the process stays the
same, so the scheduler's limits, devices and signals are the rank's. Besides what the agent says it sets RANK, LOCAL_RANK
and WORLD_SIZE, as torchrun does.
"""
import argparse
import os
import socket
import sys
import time

from .connection import FrameReader, encode
from .listener import objection

ANSWER_S = 30.0  # An agent may be starting anew.


class Refused(Exception):
    """The agent has no rank for this process."""


def local_rank(environment):
    """This process's place among the job step's on its node, as schedulers say it."""
    for name in ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID"):
        if name in environment:
            return int(environment[name])
    raise Refused("nothing says which process of its node this is (SLURM_LOCALID); start it by srun")


def slot_frame(environment):
    missing = [name for name in ("TRIMTAB_JOB", "TRIMTAB_LAUNCH") if name not in environment]
    if missing:
        raise Refused(f"{', '.join(missing)} not set: the batch script was not submitted by Trimtab, or does not pass its environment on")
    return {"type": "slot", "version": 1, "pid": os.getpid(), "job": environment["TRIMTAB_JOB"],
            "launch": int(environment["TRIMTAB_LAUNCH"]), "variant": environment.get("TRIMTAB_VARIANT", ""),
            "local_rank": local_rank(environment)}


def socket_path(given, environment):
    """Of this node's agent: `{node}` in it is the node's name."""
    path = given or environment.get("TRIMTAB_SOCKET", "")
    if not path:
        raise Refused("TRIMTAB_SOCKET is not set, and no --socket was given")
    return path.replace("{node}", environment.get("SLURMD_NODENAME") or socket.gethostname())


def ask(path, frame, patience=ANSWER_S):
    """The agent's answer. Tries again while there is no agent."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return _ask_once(path, frame, deadline)
        except OSError as error:
            if time.monotonic() > deadline:
                raise Refused(f"no answer from the agent at {path}: {error}") from error
            time.sleep(0.5)


def _ask_once(path, frame, deadline):
    reader = FrameReader()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(max(0.1, deadline - time.monotonic()))
        connection.connect(path)
        why = objection(connection, path)
        if why:
            raise Refused(why)
        connection.sendall(encode(frame))
        while True:
            chunk = connection.recv(64 << 10)
            if not chunk:
                raise ConnectionError("it hung up")
            for message in reader.feed(chunk):
                return message


def become(answer, environment):
    """Does not return. The agent ends the rank by its process group, so it must lead one."""
    if answer.get("type") != "run":
        raise Refused(answer.get("message", "the agent's answer was not understood"))
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    merged = {**environment, **answer["environment"]}
    for plain in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        merged.setdefault(plain, merged[f"TRIMTAB_{plain}"])
    os.chdir(answer["working_directory"] or "/")
    log = os.open(answer["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    sys.stderr.flush()
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.execvpe(answer["arguments"][0], answer["arguments"], merged)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="trimtab.slot", description="Become one of a launch's ranks.")
    parser.add_argument("--socket", help="this node's agent; {node} is the node's name (default: TRIMTAB_SOCKET)")
    given = parser.parse_args(arguments)
    try:
        path = socket_path(given.socket, os.environ)
        become(ask(path, slot_frame(os.environ)), dict(os.environ))
    except Refused as refused:
        print(f"trimtab.slot: {refused}", file=sys.stderr)
    except OSError as error:
        print(f"trimtab.slot: couldn't become the rank: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
