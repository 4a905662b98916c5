"""What a plan means, operator by operator: two plans of one meaning train alike. Readers answer in the same form."""
import dataclasses

LEVELS = ("none", "optimizer", "gradients", "parameters")


@dataclasses.dataclass(frozen=True)
class OperatorMeaning:
    stage: int
    dp: int
    tp: int
    cp: int
    sharded: str
    sharded_degree: int  # 1: not sharded
    tp_consecutive: bool
    recompute: bool


@dataclasses.dataclass(frozen=True)
class PlanMeaning:
    global_batch: int
    microbatch: int
    schedule: str
    devices: tuple  # of each stage
    operators: tuple
    offload_optimizer: bool
    knobs: tuple


def operator_meaning(stage, dp, tp, cp, sharded, degree, consecutive, recompute):
    """Without what has no effect: sharding over one replica, an order of ranks where there is none to choose."""
    if dp == 1 or degree == 1:
        sharded = "none"
    return OperatorMeaning(stage, dp, tp, cp, sharded, 1 if sharded == "none" else degree,
                           consecutive or tp == 1 or dp * cp == 1, recompute)


def of_plan(plan):
    operators = []
    for number, stage in enumerate(plan["stages"]):
        for segment in stage["segments"]:
            dp = segment.get("dp", 1)
            ranges = segment.get("recompute", [])
            for index in range(*segment["operators"]):
                operators.append(operator_meaning(
                    number, dp, segment.get("tp", 1), segment.get("cp", 1), segment.get("sharded", "none"),
                    segment.get("sharded_degree", 0) or dp, segment.get("tp_consecutive", True),
                    any(begin <= index < end for begin, end in ranges)))
    segments = [segment for stage in plan["stages"] for segment in stage["segments"]]
    return PlanMeaning(
        plan["global_batch"], plan["microbatch"], plan.get("schedule", {}).get("kind", "1f1b"),
        tuple(tuple(stage["devices"]) for stage in plan["stages"]), tuple(operators),
        all(segment.get("switches", {}).get("offload_optimizer", False) for segment in segments),
        tuple(sorted(plan.get("target_knobs", {}).items())))


@dataclasses.dataclass(frozen=True)
class Shape:
    """A model for tests: operators before the first layer, of each layer, behind the last."""

    layers: int
    before: int = 1
    after: int = 1
    width: int = 2
    sequence: int = 64

    @property
    def operators(self):
        return self.before + self.layers * self.width + self.after

    def layer_range(self, layer):
        begin = self.before + layer * self.width
        return begin, begin + self.width

    def layer_of(self, index):
        """None for what is part of no layer."""
        if not self.before <= index < self.operators - self.after:
            return None
        return (index - self.before) // self.width

    def is_mlp(self, index):
        return self.width == 2 and self.layer_of(index) is not None and (index - self.before) % 2 == 1

    def document(self, batch, dtype="float32"):
        operators = []

        def add(kind, layer):
            operators.append({"name": f"{kind}{len(operators)}", "kind": kind, "layer": layer, "cost_key": kind,
                              "shape": {"sequence": self.sequence}, "parameter_bytes": 64, "activation_bytes": 64, "output_bytes": 64,
                              "forward_flops": 1, "shardings": ["default", "alternate"]})

        for _ in range(self.before):
            add("embedding", 0)
        for layer in range(self.layers):
            for kind in (["attention", "mlp"] if self.width == 2 else ["decoder_layer"]):
                add(kind, layer)
        for _ in range(self.after):
            add("head", self.layers - 1)
        return {"schema": "trimtab.model/1", "name": "random", "global_batch": batch, "dtype": dtype,
                "operators": operators}
