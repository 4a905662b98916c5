"""What this rank trains, on what and how: the frame `facts` of docs/protocols.md. Told when it changes."""
import time

from . import backward, shapes, tree
from .identity import initialized_distributed
from .layers import layers
from .links import Links
from .loaders import batches
from .memory import memory
from .modules import modules
from .recomputation import repeated
from .session import outer, session

_EVERY_S = 2.0  # How often it is looked at again.
_MEMORY_EVERY_S = 1.0
_STARTS = 3  # Steps until modules are looked at for the last time.


class Facts:
    def __init__(self):
        self.by_framework = {}  # What a framework's hook knows: it counts before all.
        self._steps = 0
        self._model = {}
        self._told = None
        self._next = self._next_memory = 0.0
        self.memory = {}
        self._links = None

    def made_with(self, framework):
        self.by_framework["framework"] = outer(framework, self.by_framework.get("framework"))

    def stepped(self, _number):
        """After each step."""
        self._steps += 1
        if self._steps == 1:
            self._look(modules.find())
            self._links = _links()
        elif self._steps <= _STARTS:
            modules.look_further()
            shapes.stepped(modules)
        now = time.monotonic()
        if now >= self._next_memory:
            self._next_memory = now + _MEMORY_EVERY_S
            self.memory = memory(modules.torch)
        if self._steps == _STARTS:
            layers.start(modules)
        if self._steps == _STARTS or (self._steps > _STARTS and now >= self._next):
            self._next = now + _EVERY_S
            self._tell()

    def _look(self, found):
        if found:
            self._model = {**_model(modules.trained or found[:1]), **_device(modules.torch, found[0])}
        self._model["torch"] = str(modules.torch.__version__)

    def _tell(self):
        facts = {**self._model, **_loader(), **self.memory}
        heaviest = shapes.heaviest()
        if heaviest:
            facts["shapes"] = heaviest
        if modules.roots and modules.roots[0].dtype is not None:
            facts["dtype"] = str(modules.roots[0].dtype).replace("torch.", "")
        if modules.compiled:
            facts["compiled"] = True
        if batches.sequence_length:
            facts["sequence_length"] = batches.sequence_length
        links = self._links.sample() if self._links is not None else []
        if links:
            facts["links"] = links
        facts.update(_accumulation())
        facts.update(self.by_framework)
        if facts != self._told:
            self._told = facts
            session.client.facts(facts)

    def peak(self):
        used = self.memory.get("memory_used_bytes")
        return {"peak_bytes": used} if used else {}


facts = Facts()
stepped = facts.stepped
session.collect(facts.peak)


def _links():
    """Of the ranks' own connections, counted from now on; None where this is the only rank."""
    if initialized_distributed() is None:
        return None
    links = Links()
    links.sample()
    return links


def _accumulation():
    # A rank of several stages has a backward pass for each of them.
    microbatches = session.told.get("microbatches", 0)
    known = {"accumulation": microbatches, "checkpointed_layers": repeated.latest // max(1, microbatches),
             "reduced_microbatches": backward.counts.latest_reduced}
    return {name: value for name, value in known.items() if value}


def _model(parts):
    inners = [inner for part in parts for inner in part.modules()]
    names = {type(inner).__name__ for inner in inners}
    kinds = {base.__name__ for inner in inners for base in type(inner).__mro__}
    framework = "torch"
    if "DistributedDataParallel" in names:
        framework = "ddp"
    elif "FullyShardedDataParallel" in names:
        framework = "fsdp"
    elif "FSDPModule" in kinds:
        framework = "fsdp2"
    known = {"framework": framework, "parameters": sum(map(tree.parameters, parts)),
             "layers": sum(len(layers.names_in(part)) for part in parts)}
    if any(map(tree.is_compiled, inners)):
        known["compiled"] = True
    return {name: value for name, value in known.items() if value}


def _device(torch, module):
    parameter = next(module.parameters(), None)
    if parameter is None:
        return {}
    known = {"device": parameter.device.type, "dtype": str(parameter.dtype).replace("torch.", "")}
    if parameter.device.type == "cuda":
        known["device_name"] = torch.cuda.get_device_name(parameter.device)
    return known


def _loader():
    iterator = batches.loader()
    if iterator is None:
        return {}
    known = {"workers": int(iterator._num_workers)}
    sampler = getattr(iterator, "_index_sampler", None)
    size = getattr(sampler, "batch_size", None)
    if isinstance(size, int):
        known["batch_size"] = size
    return known
