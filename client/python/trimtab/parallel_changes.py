"""Another plan between two steps of trimtab.parallel, in the objects that the script holds.

Its model, layers and optimizer stay the same objects, and no parameter and no optimizer state moves. So microbatches, recomputed layers,
DDP's bucket size and what fully_shard gathers anew are changed while the job runs. What moves states (STAYS) takes a launch, and is
refused by name. Main thread only.
"""
import functools
import inspect
import time

from .learning_guard import LearningGuard
from .parallel_plan import BadConfiguration, of_document
from .plan_change import Refused

STAYS = ("kind", "world_size", "global_batch", "layers", "zero_redundancy_optimizer", "sharding_strategy", "shard_group_size")
NORM_UNKNOWN = 1.0  # Of a step whose norm nobody asks for: it says nothing of what is learnt.


class Wrapped:
    """What wrap() has made of one model."""

    def __init__(self, layers):
        self._layers = list(layers)
        self._forwards = {}  # Of recomputed layers: their own attribute `forward`, or None.
        self._ddp, self._named = None, {}

    def recompute(self, indices):
        """These layers' forward passes are run again in the backward pass, and no others'. Parameters and their names stay."""
        from torch.utils.checkpoint import checkpoint

        for index in set(self._forwards) - set(indices):
            own = self._forwards.pop(index)
            if own is None:
                del self._layers[index].forward
            else:
                self._layers[index].forward = own
        for index in set(indices) - set(self._forwards):
            layer = self._layers[index]
            self._forwards[index] = vars(layer).get("forward")
            layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)

    def under_ddp(self, model, named):
        """`named`: the script's own arguments of DistributedDataParallel."""
        self._ddp, self._named = model, named

    def check(self, now, wanted):
        """Raises Refused where this model cannot go from one configuration to the other."""
        if wanted.checkpoint_layers and len(self._layers) != wanted.layers:
            raise Refused("unsuitable", f"the plan counts {wanted.layers} layers, but wrap() was given {len(self._layers)}")
        why = _why_not_remade(self._ddp, self._named) if self._ddp is not None and wanted.bucket_cap_mb != now.bucket_cap_mb else ""
        if why:
            raise Refused("unsuitable", f"bucket_cap_mb: DistributedDataParallel cannot begin anew: {why}")

    def change(self, now, wanted):
        self.recompute(wanted.checkpoint_layers)
        if self._ddp is not None and wanted.bucket_cap_mb != now.bucket_cap_mb:
            _remade(self._ddp, {**self._named, **buckets_of(wanted)})
        if wanted.reshard_after_forward == now.reshard_after_forward:
            return
        for layer in self._layers:  # The root stays gathered after its forward pass, whatever the plan is.
            if hasattr(layer, "set_reshard_after_forward"):  # A process alone shards nothing.
                layer.set_reshard_after_forward(wanted.reshard_after_forward, recurse=False)


def buckets_of(configuration):
    """DistributedDataParallel's argument, where the plan says one."""
    return {"bucket_cap_mb": configuration.bucket_cap_mb} if configuration.bucket_cap_mb else {}


def _skips_sync():
    """Ranks have the same parameters already: what newer PyTorch needs not be told to do."""
    from torch.nn.parallel import DistributedDataParallel

    return {"init_sync": False} if "init_sync" in inspect.signature(DistributedDataParallel).parameters else {}


def _why_not_remade(ddp, named):
    """Empty: it can be."""
    for name in ("mixed_precision", "delay_all_reduce_named_params"):
        if named.get(name):
            return f"{name}, which the script gives, leaves hooks on its modules"
    if not hasattr(ddp, "_comm_hooks") and ddp._get_ddp_logging_data().get("comm_hook"):
        return "the script has a communication hook, which this PyTorch does not give back"
    if named.get("broadcast_buffers") is False and not _skips_sync() and next(ddp.module.buffers(), None) is not None:
        return "this PyTorch would copy rank 0's buffers, which the script keeps apart by broadcast_buffers=False"
    return ""


def _remade(ddp, named):
    """DistributedDataParallel begins anew with these arguments, in the same object: the script's references to it, and its hooks, hold."""
    from torch.nn.parallel import DistributedDataParallel

    kept = {name: value for name, value in vars(ddp).items()
            if name == "training" or name.startswith(("_forward_", "_backward_", "_state_dict_", "_load_state_dict_"))}
    hooks, module = list(getattr(ddp, "_comm_hooks", ())), ddp.module
    del ddp.reducer, ddp.logger  # Its buckets are as large as all gradients: they go before new ones come.
    DistributedDataParallel.__init__(ddp, module, **{**named, **_skips_sync()})
    vars(ddp).update(kept)
    for hook, state in hooks:
        ddp.register_comm_hook(state, hook)


class Changes:
    """The plan of a run from step to step. All ranks call its methods with the same values, and so decide alike."""

    def __init__(self, client):
        self._client, self._models = client, []
        self._guard = LearningGuard()
        self._earlier = None  # (configuration, epoch) before the plan that runs, or None.
        self._adopted = None  # Whether the running plan is the incumbent; None: no step has told yet.

    def add(self, wrapped):
        self._models.append(wrapped)

    def validate(self, now, document):
        """The callback of next_plan(): raises Refused where a running job cannot go from `now` to the document's configuration."""
        try:
            wanted = of_document(document, "the plan")
        except BadConfiguration as error:
            raise Refused("unsuitable", str(error)) from error
        for name in STAYS:
            before, after = getattr(now, name), getattr(wanted, name)
            if before != after:
                raise Refused("unsuitable", f"{name}: {before!r} cannot become {after!r} while the job runs. That takes a launch: "
                                            "delivery = \"restart\" in job.toml")
        for model in self._models:
            model.check(now, wanted)

    def after_step(self, now, change, step, *, loss, norm, adopted, peak_bytes):
        """The configuration of step number `step`. The values are those of the step before it, over all ranks; `adopted`: all of them
        have heard that their plan is no trial's. `change` is what next_plan() gave."""
        spoilt = self._guard.judge(loss, NORM_UNKNOWN if norm is None else norm)
        if adopted and self._adopted is False:
            self._guard.adopted()
        self._adopted = adopted
        if spoilt and self._earlier:
            return self._leave(now, change, step, spoilt)
        return now if change is None else self._enter(now, change, step, peak_bytes)

    def _enter(self, now, change, step, peak_bytes):
        began, wanted = time.perf_counter_ns(), of_document(change.plan, "the plan")
        with self._client.range("switch", change.epoch):
            self._change(now, wanted)
        self._earlier, self._adopted = (now, self._client.epoch), None
        self._guard.changed()
        took = time.perf_counter_ns() - began
        self._client.activated(change.epoch, step, switch_ns=took, peak_bytes=peak_bytes or 0, phases={"build": took})
        return wanted

    def _leave(self, now, change, step, why):
        """The running plan has changed what is learnt: back to the one before it. What it has learnt stays."""
        if change is not None:
            self._client.failed(change.epoch, step, reason="superseded",
                                message=f"the plan of epoch {self._client.epoch} failed at the same step")
        before, epoch = self._earlier
        with self._client.range("switch", epoch):
            self._change(now, before)
        self._client.failed(self._client.epoch, step, reason="loss", message=f"{why}; its updates stay", active_epoch=epoch)
        self._earlier, self._adopted, self._guard = None, None, LearningGuard()
        return before

    def _change(self, now, wanted):
        for model in self._models:
            model.change(now, wanted)
