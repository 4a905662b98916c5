"""Finds the modules that are trained, by looking for the optimizers' parameters among all that Python holds."""
import gc
import sys

# Beyond this the look takes a second or more (10 million blocks hold some 2 million objects).
BLOCKS_MAX = 10_000_000


def roots(torch, optimizers):
    """The outermost modules around the parameters of these, the largest first; none where there is too much to look through.
    Without optimizers (compiled code has called them) all that there are count."""
    if sys.getallocatedblocks() > BLOCKS_MAX:
        return []
    optimizers = optimizers or list(_alive(torch.optim.Optimizer))
    wanted = {id(parameter) for optimizer in optimizers for group in optimizer.param_groups for parameter in group["params"]}
    parents, owners = {}, []
    for module in _alive(torch.nn.Module, torch.jit.ScriptModule):
        fields = module.__dict__
        for child in (fields.get("_modules") or {}).values():
            if child is not None:
                parents.setdefault(id(child), []).append(module)
        if any(id(parameter) in wanted for parameter in (fields.get("_parameters") or {}).values()):
            owners.append(module)
    found = sorted(_outermost(owners, parents), key=lambda module: -parameters(module))
    return [module for module in found if not _is_graph(module)] or found


def _is_graph(module):
    """The compiler's own: it holds the same parameters as the module that it was made of."""
    return any(kind.__module__.startswith("torch.fx.") for kind in type(module).__mro__)


def _alive(wanted, unwanted=()):
    """All objects of a class. Their types are asked, for asking an object may run code of its own."""
    kinds = {}
    for thing in gc.get_objects():
        kind = type(thing)
        counts = kinds.get(kind)
        if counts is None:
            counts = kinds[kind] = issubclass(kind, wanted) and not issubclass(kind, unwanted)
        if counts:
            yield thing


def _outermost(modules, parents):
    found, seen = [], set()
    while modules:
        module = modules.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        around = parents.get(id(module), ())
        if around:
            modules.extend(around)
        else:
            found.append(module)
    return found


def parameters(module):
    """How many there are in the whole model, also where each rank holds a part of them."""
    return sum(whole_size(parameter) for parameter in module.parameters())


def whole_size(parameter):
    """Of a parameter of which each rank may hold a part."""
    whole = getattr(parameter, "ds_numel", None)  # DeepSpeed, stage 3
    if whole is not None:
        return int(whole)
    numels = getattr(parameter, "_numels", None)  # FSDP's flat parameter
    return int(sum(numels)) if numels else parameter.numel()


def is_compiled(module):
    return type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None


def layer_names(module):
    """The layers: children of one kind in the largest list of such, or else children of one list that have parameters.
    Their qualified names."""
    best = []
    for name, inner in module.named_modules():
        kinds = {}
        for key, child in inner.named_children():
            if next(child.parameters(), None) is not None:
                kinds.setdefault(type(child), []).append(f"{name}.{key}" if name else key)
        layers = max(kinds.values(), key=len, default=[])
        if len(layers) > len(best):
            best = layers
    return best
