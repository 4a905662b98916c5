"""What every program of a job does as one of several ranks: arguments, device, connections, and its end.

Main thread, except that the liveness thread ends the process when another rank is gone, and the program's present image
when all ranks start anew.
"""
import dataclasses
import datetime
import os
import sys

import torch

import compute_environment
import retreat
from errors import BadInput, OutsideFailure
from liveness import Liveness
from memory import is_out_of_memory, keep_freed_memory, lift_allocation_limit
from process_groups import ProcessGroups, open_store, own_address_towards

SHARED = "cuda:0"  # The first GPU, whoever has it too: NCCL takes that where each rank has an NCCL_HOSTID of its own.
VERDICT_S = 3.0  # How long a failed collective waits to learn which rank was the cause.


def add_arguments(parser, environment=os.environ):
    parser.add_argument("--rank", type=int, default=int(environment.get("TRIMTAB_RANK", 0)))
    parser.add_argument("--local-rank", type=int, default=environment.get("TRIMTAB_LOCAL_RANK"),
                        help="place on this machine; where not given, the rank")
    parser.add_argument("--world-size", type=int, default=int(environment.get("TRIMTAB_WORLD_SIZE", 1)))
    parser.add_argument("--rendezvous", default="", help="file:///path or tcp://host:port, the same for all ranks")
    parser.add_argument("--timeout", type=int, default=120, metavar="SECONDS", help="longest wait for a peer")
    parser.add_argument("--pin", choices=("auto", "off"), default="auto",
                        help="on CPUs: one core a rank where there are enough")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", SHARED), default="auto",
                        help="auto: the GPU of this rank's place where PyTorch sees one")


def device_of(choice, local_rank):
    """This rank's device: on GPUs the one of its place on the machine, for two ranks of one GPU can hardly use NCCL."""
    if choice == "cpu" or (choice == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise BadInput(f"--device {choice}: PyTorch sees no GPU on this machine")
    if choice == SHARED:
        return torch.device(SHARED)
    if local_rank >= torch.cuda.device_count():
        raise BadInput(f"local rank {local_rank} needs a GPU of its own, PyTorch sees {torch.cuda.device_count()}; "
                       "start fewer ranks, or give --device cpu")
    return torch.device("cuda", local_rank)


class RankProcess:
    def __init__(self, options):
        if not 0 <= options.rank < options.world_size:
            raise BadInput(f"--rank must lie in [0, {options.world_size}), found {options.rank}")
        self._options = options
        self._groups = None
        local_rank = options.rank if options.local_rank is None else options.local_rank
        self.device = device_of(options.device, local_rank)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        elif options.pin == "auto":
            compute_environment.pin(local_rank, options.world_size)  # A GPU's rank launches and waits on several threads.
        torch.set_num_threads(1)
        keep_freed_memory()
        self._liveness = Liveness(options.rank, options.world_size, self._on_lost, self._on_retreat)
        self.retreat = retreat.taken()  # What this image of the program begins with, or None.
        self._prepared = None  # What the next one would. Read by the liveness thread.

    @property
    def attempt(self):
        """The how-manieth image of the program this is, from 0."""
        return self.retreat.attempt if self.retreat else 0

    def connect(self):
        """Meet the other ranks; returns the ProcessGroups."""
        options = self._options
        timeout = datetime.timedelta(seconds=options.timeout)
        store = None
        if options.world_size > 1:
            store = open_store(options.rendezvous, options.rank, options.world_size, timeout, self.attempt)
            store.set_timeout(timeout)
            self._liveness.start(store, own_address_towards(options.rendezvous), options.timeout)
        self._groups = ProcessGroups(options.rank, options.world_size, self.device, store, timeout)
        return self._groups

    def close(self):
        """The clean end: all ranks are done."""
        self._groups.barrier()
        self._liveness.close()
        self._groups.close()

    def prepare_retreat(self, plan, epoch, failed_epoch):
        """Where to go if a step fails from now on: to this plan document, from the newest snapshot. All ranks call it
        between the same two exchanges. Without a plan: nowhere."""
        attempt = self.retreat.attempt + 1 if self.retreat else 1
        self._prepared = retreat.Retreat(plan, epoch, failed_epoch, attempt=attempt) if plan else None

    def retreat_from(self, reason, message):
        """Take all ranks to what was prepared. Does not return, unless nothing was."""
        if self._prepared is not None:
            self._liveness.call_retreat(f"{reason} {message}")
            self._on_retreat(f"{reason} {message}")

    def survive(self, error):
        """After a failure on the main thread: where it was memory, retreat if that is possible."""
        lift_allocation_limit(self.device)
        if is_out_of_memory(error):
            self.retreat_from("out_of_memory", f"rank {self._options.rank} ran out of memory in the middle of a step: "
                                               f"{_first_words(error)}")

    def explain(self, error):
        """What to say of a failure here. Does not return if another rank turns out to be its cause."""
        text = str(error)
        if not isinstance(error, (OutsideFailure, BadInput)):
            self._liveness.await_verdict(VERDICT_S)
            text = f"{type(error).__name__}: {error}"
        if is_out_of_memory(error):
            text = f"out of memory: {_first_words(error)}; choose a plan that keeps less, or raise --memory-limit"
        self._liveness.announce(text)
        return text

    def _on_lost(self, rank, why):
        # The main thread may sit in a collective that will never end, so nothing can be unwound.
        os.write(2, f"rank {self._options.rank}: rank {rank} is gone ({why}); "
                    "start the job again, it resumes from its newest snapshot\n".encode())
        os._exit(OutsideFailure.exit_status)

    def _on_retreat(self, text):
        reason, _, message = text.partition(" ")
        if self._prepared is None:
            os.write(2, f"rank {self._options.rank}: {message}; there is no plan to return to\n".encode())
            os._exit(OutsideFailure.exit_status)
        lift_allocation_limit(self.device)  # The next image must not begin under this one's limit.
        retreat.start_anew(dataclasses.replace(self._prepared, reason=reason, message=message))


def _first_words(error):
    """Of a library's message, which may go on with where in its source it was thrown."""
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def run_as_rank(options, work):
    """Do work(process) and end the program: 0, or the failure's status after its message on standard error."""
    process = None
    try:
        process = RankProcess(options)
        work(process)
        status = 0
    except (BadInput, OutsideFailure, RuntimeError, OSError, MemoryError) as error:
        if process:
            process.survive(error)
        status = getattr(error, "exit_status", OutsideFailure.exit_status)
        text = process.explain(error) if process else str(error)
        prefix = "" if text.startswith("rank ") else f"rank {options.rank}: "
        print(f"{prefix}{text}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    # No interpreter shutdown: the destructors of process groups wait for peers that are gone, or abort.
    os._exit(status)
