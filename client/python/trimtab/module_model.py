"""model.json from a PyTorch module:

    python3 -m trimtab.module_model my_model:layers --global-batch 64 --out model.json

`my_model:layers` names a function without arguments that returns (layers, example): the modules in the order in which
they run, and one sample to put through them (a tensor whose first dimension is 1). A layer is a module, or a tuple
(name, kind, module), or (name, kind, layer number, module) where several operators make one layer. Each takes what the
one before returns. Kinds "embedding" and "head" stand apart from the layers that targets count; without kinds a first
layer that takes integers is the embedding, a last one unlike the others the head.

Parameters are counted from the tensors themselves; stored activations are the tensors that autograd keeps in a real
forward pass of one sample; flops are the multiplications and additions of matrix products and convolutions in it.
PyTorch is loaded here alone, not by `import trimtab`.
"""
import argparse
import dataclasses
import hashlib
import importlib
import json
import os
import sys

from .two_clocks import launched_as

DTYPES = {"torch.float32": "float32", "torch.float16": "float16", "torch.bfloat16": "bfloat16"}


class BadModel(Exception):
    pass


@dataclasses.dataclass
class Layer:
    name: str
    kind: str
    number: int
    module: object


def layers_of(given, example):
    """The layers with names, kinds and numbers filled in."""
    layers = []
    for entry in given:
        if not isinstance(entry, tuple):
            entry = ("", "", entry)
        name, kind, module = entry[0], entry[1], entry[-1]
        number = entry[2] if len(entry) == 4 else None
        layers.append(Layer(name, kind, number, module))
    if not layers:
        raise BadModel("the function returned no layers")
    unnamed = [layer for layer in layers if not layer.kind]
    if unnamed and layers[0] in unnamed and not example.is_floating_point():
        layers[0].kind = "embedding"
    if len(layers) > 2 and layers[-1] in unnamed and type(layers[-1].module) is not type(layers[-2].module):
        layers[-1].kind = "head"
    last = -1
    for layer in layers:
        layer.kind = layer.kind or type(layer.module).__name__.lower()
        if layer.number is None:
            layer.number = max(last, 0) if layer.kind in ("embedding", "head") else last + 1
        last = layer.number if layer.kind != "embedding" else last
        layer.name = layer.name or (layer.kind if layer.kind in ("embedding", "head")
                                    else f"layer{layer.number}-{layer.kind}")
    return layers


def _parameters(module):
    """By identity: a parameter that a module holds twice counts once."""
    return {id(parameter): parameter for parameter in module.parameters()}


def _bytes(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def tied_parameters(layers):
    """Parameters that several layers hold, by the set of their layers."""
    owners = {}
    for index, layer in enumerate(layers):
        for key, parameter in _parameters(layer.module).items():
            owners.setdefault(key, (parameter, []))[1].append(index)
    groups = {}
    for parameter, indices in owners.values():
        if len(indices) > 1:
            groups[tuple(indices)] = groups.get(tuple(indices), 0) + _bytes([parameter])
    return [{"operators": list(indices), "bytes": size} for indices, size in sorted(groups.items())]


def _flop_counter(torch):
    from torch.utils._python_dispatch import TorchDispatchMode

    class FlopCounter(TorchDispatchMode):
        flops = 0

        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            result = function(*arguments, **(named or {}))
            name = function.__name__.split(".")[0]
            if name in ("mm", "bmm"):
                self.flops += 2 * result.numel() * arguments[0].shape[-1]
            elif name in ("addmm", "baddbmm"):
                self.flops += 2 * result.numel() * arguments[1].shape[-1]
            elif name == "convolution" and not arguments[6]:  # not transposed
                self.flops += 2 * result.numel() * arguments[1][0].numel()
            return result

    return FlopCounter()


class Kept:
    """Counts the bytes of the tensors that autograd keeps, each storage once, parameters and the input apart."""

    def __init__(self, torch, known):
        self._storages = {}
        self._known = {tensor.storage().data_ptr() for tensor in known if tensor.numel()}
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor)

    def _pack(self, tensor):
        self.add(tensor)
        return tensor

    def add(self, tensor):
        storage = tensor.storage()
        if storage.data_ptr() not in self._known:
            self._storages[storage.data_ptr()] = storage.nbytes()

    @property
    def bytes(self):
        return sum(self._storages.values())

    def __enter__(self):
        self._hooks.__enter__()
        return self

    def __exit__(self, *error):
        self._hooks.__exit__(*error)


def _run(torch, layer, inputs):
    """(output, bytes kept with the output, flops) of one forward pass."""
    leaf = inputs.detach().clone()
    if leaf.is_floating_point():
        leaf.requires_grad_(True)
    known = [*layer.module.parameters(), *layer.module.buffers(), leaf]
    counter = _flop_counter(torch)
    with Kept(torch, known) as kept, counter:
        output = layer.module(leaf)
    if not torch.is_tensor(output):
        raise BadModel(f"{layer.name} returned {type(output).__name__}: needs a tensor that the next layer takes")
    kept.add(output)
    return output.detach(), kept.bytes, counter.flops


def cost_key(layer, inputs):
    shapes = [tuple(parameter.shape) for parameter in layer.module.parameters()]
    text = f"{layer.module!r} {shapes} {tuple(inputs.shape)} {inputs.dtype}"
    return f"{layer.kind}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def document(given, example, *, name, global_batch):
    """The model.json document of these layers, as a dictionary. Runs each distinct layer once, on its own device."""
    import torch

    if example.shape[0] != 1:
        raise BadModel(f"the example's first dimension must be 1, one sample; it is {example.shape[0]}")
    layers = layers_of(given, example)
    dtypes = {str(parameter.dtype) for layer in layers for parameter in layer.module.parameters()}
    if len(dtypes) != 1 or not dtypes <= set(DTYPES):
        raise BadModel(f"parameters must be of one of {', '.join(DTYPES)}, all alike; found {', '.join(sorted(dtypes))}")
    operators, measured, inputs = [], {}, example
    for layer in layers:
        key = cost_key(layer, inputs)
        if key not in measured:
            measured[key] = _run(torch, layer, inputs)
        output, kept, flops = measured[key]
        operators.append({
            "name": layer.name, "kind": layer.kind, "layer": layer.number, "cost_key": key,
            "cut_before": True, "shape": {}, "parameter_bytes": _bytes(_parameters(layer.module).values()),
            "activation_bytes": kept, "output_bytes": _bytes([output]), "forward_flops": flops,
            "shardings": ["default"], "tensor_all_reduces": 0})
        inputs = output
    dtype = DTYPES[dtypes.pop()]
    ways = {launched_as(layer.module) for layer in layers}
    return {
        "schema": "trimtab.model/1", "name": name, "global_batch": global_batch, "dtype": dtype,
        "launched_as": (ways.pop() if len(ways) == 1 else "") or "kernels",
        "operators": operators, "tied_parameters": tied_parameters(layers),
        "gradient_bytes_per_parameter_byte": 1.0, "optimizer_bytes_per_parameter_byte": 2.0,
    }


def load(named):
    """What MODULE:FUNCTION returns."""
    module, colon, function = named.partition(":")
    if not colon:
        raise BadModel(f"needs MODULE:FUNCTION, found {named!r}")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise BadModel(f"cannot find {named}: {error}") from error
    answer = found()
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise BadModel(f"{named} must return (layers, example), it returned {type(answer).__name__}")
    return answer


def main(words=None):
    parser = argparse.ArgumentParser(prog="trimtab.module_model", description="Print model.json of a PyTorch module.")
    parser.add_argument("module", metavar="MODULE:FUNCTION")
    parser.add_argument("--global-batch", type=int, required=True, help="samples of a step")
    parser.add_argument("--name", default="")
    parser.add_argument("--out", default="", help="where to write (default: standard output)")
    given = parser.parse_args(words)
    try:
        layers, example = load(given.module)
        found = document(layers, example, name=given.name or given.module.partition(":")[0],
                         global_batch=given.global_batch)
    except BadModel as error:
        print(error, file=sys.stderr)
        return 2
    text = json.dumps(found, indent=1)
    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
