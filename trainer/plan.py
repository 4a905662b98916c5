"""plan.json as this trainer executes it. Everything it does not honour is refused with the path of the field."""
import dataclasses
import json

from errors import BadInput

SCHEMA = "trimtab.plan/1"


class PlanRefused(BadInput):
    """The plan is malformed or asks for something that this trainer does not do."""

    reason = "invalid_plan"


@dataclasses.dataclass(frozen=True)
class Stage:
    index: int
    devices: tuple
    begin: int  # First operator.
    end: int  # One past the last operator.
    recompute: frozenset

    @property
    def replicas(self):
        return len(self.devices)


@dataclasses.dataclass(frozen=True)
class Plan:
    document: dict = dataclasses.field(compare=False, repr=False)
    global_batch: int
    microbatch: int
    eager: bool  # Receives are posted before the computation that precedes their use.
    stages: tuple

    @property
    def microbatches(self):
        return self.global_batch // self.microbatch

    def stage_of_rank(self, rank):
        return next(stage for stage in self.stages if rank in stage.devices)

    def stage_of_operator(self, operator):
        return next(stage for stage in self.stages if stage.begin <= operator < stage.end)

    def owner(self, operator):
        """The one replica that writes, sends and accounts for this operator; spread over the stage's replicas."""
        stage = self.stage_of_operator(operator)
        return stage.devices[operator % stage.replicas]


def load(path, config, operator_count, world_size):
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise PlanRefused(f"{path}: cannot read the plan: {error.strerror}") from error
    except ValueError as error:
        raise PlanRefused(f"{path}: not JSON: {error}") from error
    try:
        return parse(document, config, operator_count, world_size)
    except PlanRefused as error:
        raise PlanRefused(f"{path}: {error}") from error


def parse(document, config, operator_count, world_size):
    """The validated plan. Raises PlanRefused with the path of the offending field."""
    fields = _Fields(document, "plan")
    if fields.take("schema", None) != SCHEMA:
        fields.refuse("schema", f"must be {SCHEMA}")
    if fields.take("model", None) != config.name:
        fields.refuse("model", f"must be {config.name}, the model being trained")
    global_batch = fields.integer("global_batch", None)
    if global_batch != config.global_batch:
        fields.refuse("global_batch", f"must equal the model's, {config.global_batch}")
    microbatch = fields.integer("microbatch", None)
    if global_batch % microbatch:
        fields.refuse("microbatch", f"must divide global_batch ({global_batch})")
    eager = _parse_schedule(_Fields(fields.take("schedule", {}), "plan.schedule"))
    stage_documents = fields.take("stages", [])
    if not isinstance(stage_documents, list) or not stage_documents:
        fields.refuse("stages", "must be a list of at least one stage")
    fields.nothing_else()
    stages, begin = [], 0
    for index, stage_document in enumerate(stage_documents):
        stage = _parse_stage(stage_document, index, begin, operator_count, microbatch)
        stages.append(stage)
        begin = stage.end
    if begin != operator_count:
        raise PlanRefused(f"plan.stages: cover operators [0, {begin}), but the model has {operator_count}")
    devices = [device for stage in stages for device in stage.devices]
    if sorted(devices) != list(range(world_size)):
        raise PlanRefused(
            f"plan.stages: their devices must be 0 to {world_size - 1}, each once, found {devices}")
    return Plan(document, global_batch, microbatch, eager, tuple(stages))


def _parse_schedule(fields):
    if fields.take("kind", "1f1b") != "1f1b":
        fields.refuse("kind", "must be 1f1b, the only schedule this trainer has")
    transfers = fields.take("transfers", "blocking")
    if transfers not in ("blocking", "eager"):
        fields.refuse("transfers", "must be blocking or eager")
    if fields.take("sub_batches", 1) not in (0, 1):
        fields.refuse("sub_batches", "must be 1: this trainer does not split microbatches")
    fields.nothing_else()
    return transfers == "eager"


def _parse_stage(document, index, begin, operator_count, microbatch):
    path = f"plan.stages[{index}]"
    fields = _Fields(document, path)
    devices = fields.take("devices", [])
    if not isinstance(devices, list) or not devices or any(type(device) is not int for device in devices):
        fields.refuse("devices", "must be a list of at least one device number")
    if microbatch % len(devices):
        raise PlanRefused(
            f"plan.microbatch: {microbatch} must be a multiple of the {len(devices)} replicas of {path}")
    segments = fields.take("segments", [])
    if not isinstance(segments, list) or not segments:
        fields.refuse("segments", "must be a list of at least one segment")
    fields.nothing_else()
    recompute, end = set(), begin
    for number, segment in enumerate(segments):
        end = _parse_segment(_Fields(segment, f"{path}.segments[{number}]"), end, operator_count, len(devices), recompute)
    return Stage(index, tuple(devices), begin, end, frozenset(recompute))


def _parse_segment(fields, begin, operator_count, replicas, recompute):
    first, end = fields.operator_range("operators", fields.take("operators", None), begin, operator_count)
    if first != begin:
        fields.refuse("operators", f"must begin at {begin}, where the segment before ends")
    for name in ("tp", "cp"):
        if fields.take(name, 1) != 1:
            fields.refuse(name, "must be 1: this trainer does not split operators")
    if fields.integer("dp", 1) != replicas:
        fields.refuse("dp", f"must be {replicas}, the number of the stage's devices")
    if fields.take("sharded", "none") != "none":
        fields.refuse("sharded", "must be none: this trainer does not shard parameters")
    # Degree 1 shards nothing, and with tp = 1 the order of tensor-parallel ranks does not exist.
    if fields.take("sharded_degree", 1) not in (0, 1, replicas):
        fields.refuse("sharded_degree", "has no meaning without sharding")
    fields.take("tp_consecutive", True)
    switches = fields.take("switches", {})
    if isinstance(switches, dict):
        _Fields(switches, f"{fields.path}.switches").nothing_else()
    else:
        fields.refuse("switches", "must be an object")
    ranges = fields.take("recompute", [])
    if not isinstance(ranges, list):
        fields.refuse("recompute", "must be a list of operator ranges")
    for number, pair in enumerate(ranges):
        low, high = fields.operator_range(f"recompute[{number}]", pair, first, end)
        recompute.update(range(low, high))
    fields.nothing_else()
    return end


class _Fields:
    """A JSON object being read: whoever takes all that is understood can refuse what is left."""

    def __init__(self, document, path):
        if not isinstance(document, dict):
            raise PlanRefused(f"{path}: must be an object, found {json.dumps(document)[:80]}")
        self._document = document
        self._left = dict(document)
        self.path = path

    def take(self, name, default):
        return self._left.pop(name, default)

    def integer(self, name, default):
        value = self.take(name, default)
        if type(value) is not int or value < 1:
            self.refuse(name, "must be an integer of 1 or more")
        return value

    def operator_range(self, name, pair, low, high):
        whole = isinstance(pair, list) and len(pair) == 2 and all(type(bound) is int for bound in pair)
        if not whole or not low <= pair[0] < pair[1] <= high:
            self.refuse(name, f"must be [begin, end) inside [{low}, {high})", pair)
        return pair

    def refuse(self, name, need, found=None):
        if found is None:
            found = self._document.get(name)
        raise PlanRefused(f"{self.path}.{name}: {need}, found {json.dumps(found)[:80]}")

    def nothing_else(self):
        """Refuse fields that are on and that nobody took. A field that is off asks for nothing."""
        for name, value in self._left.items():
            if value not in (None, False, 0, "", "none"):
                if isinstance(value, (list, dict)) and not value:
                    continue
                self.refuse(name, "is not honoured by this trainer")
