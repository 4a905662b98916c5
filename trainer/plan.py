"""plan.json as this trainer executes it. Everything it does not honour is refused with the path of the field."""
import dataclasses
import functools
import hashlib
import json

from errors import BadInput
from model import operator_specs, why_not_split

SCHEMA = "trimtab.plan/1"


class PlanRefused(BadInput):
    """The plan is malformed or asks for something that this trainer does not do."""

    reason = "invalid_plan"


@dataclasses.dataclass(frozen=True)
class Schedule:
    # Or gpipe: all forward passes of a step, then all backward passes. Or interleaved: 1F1B of stages that go round the ranks.
    kind: str = "1f1b"
    eager: bool = False  # Receives are posted before the computation that precedes their use.
    sliced_microbatches: int = 0  # This many are passed on in halves while the pipeline fills.
    sub_batches: int = 1  # So many parts of a microbatch are passed together, one computing beside another's sums.
    cross_pass: bool = False  # With several: recompute and backward are one pass, without a barrier between them.
    recompute_after_communication: bool = False  # And recomputing an operator leaves out the sum that ends it.

    @property
    def parts(self):
        """Into how many equal parts a microbatch is divided at most."""
        return 2 if self.sliced_microbatches else self.sub_batches

    def parts_of(self, microbatch):
        """Into how many a microbatch is divided for everybody: each rank has a slice of each part."""
        return 1 if self.sub_batches == 1 and microbatch >= self.sliced_microbatches else self.parts


@dataclasses.dataclass(frozen=True)
class Place:
    """A rank's part in a segment."""

    replica: int  # With context parallelism each rank's part of one counts: they hold the same parameters.
    tensor_rank: int  # Among the ranks that share the replica's operators.


@dataclasses.dataclass(frozen=True)
class Segment:
    """Neighbouring operators of a stage that are split alike."""

    devices: tuple  # The stage's.
    begin: int  # First operator.
    end: int  # One past the last operator.
    dp: int  # Ranks that hold the same parameters: `replicas` times `cp`.
    tp: int
    consecutive: bool  # The tensor-parallel rank varies fastest along `devices`.
    sharded: str  # none | optimizer | gradients | parameters
    degree: int  # Of those ranks, how many share one copy of the sharded states; 1 where nothing is sharded.
    offload_optimizer: bool = False  # The optimizer's states wait on the host, which updates them.
    partitioned: frozenset = frozenset()  # Operators whose gathered parameters are released between the passes.
    lazy: frozenset = frozenset()  # Of those, the ones whose share of the parameters waits on the host meanwhile.
    cp: int = 1  # So many groups of tensor-parallel ranks have a part of each of a replica's sequences.
    sequence: bool = False  # Between operators the tensor-parallel ranks have a part of that each.

    @property
    def replicas(self):
        return self.dp // self.cp

    @property
    def parts(self):
        """Into how many a sequence is divided between operators."""
        return self.cp * (self.tp if self.sequence else 1)

    def level_of(self, operator):
        """How its states are sharded: gathered parameters that do not stay are sharded ones (ZeRO's level 3, not 2)."""
        return "parameters" if operator in self.partitioned and self.sharded == "gradients" else self.sharded

    def place_of(self, rank):
        position = self.devices.index(rank)
        if self.consecutive:
            return Place(position // self.tp, position % self.tp)
        return Place(position % self.dp, position // self.dp)

    def rank_at(self, place):
        if self.consecutive:
            return self.devices[place.replica * self.tp + place.tensor_rank]
        return self.devices[place.tensor_rank * self.dp + place.replica]

    # Groups of ranks, each ascending: the order in which pieces lie.

    def tensor_members(self, place):
        """The ranks that share the operators of one replica, or of its part."""
        return self._members(self.tensor_places(place))

    def tensor_places(self, place):
        """Theirs, in the order of their shares."""
        return [Place(place.replica, rank) for rank in range(self.tp)]

    def context_members(self, place):
        """The ranks that exchange keys and values."""
        return self._members(self.context_places(place))

    def context_places(self, place):
        """Theirs, in the order of their tokens."""
        first = place.replica // self.cp * self.cp
        return [Place(first + part, place.tensor_rank) for part in range(self.cp)]

    def data_members(self, place):
        """The ranks that hold the same share of operators."""
        return self._members(Place(replica, place.tensor_rank) for replica in range(self.dp))

    def shard_members(self, place):
        """Of those, the ones that share one copy of the sharded states."""
        first = place.replica // self.degree * self.degree
        return self._members(Place(replica, place.tensor_rank) for replica in range(first, first + self.degree))

    def whole_members(self, place):
        """The tensor-parallel ranks that keep the same shard of what all of them hold."""
        shard = self.shard_members(place).index(self.rank_at(place))
        return tuple(sorted(self.shard_members(one)[shard] for one in self.tensor_places(place)))

    def copy_members(self, place):
        """And the ones that hold the same shard of other copies."""
        shard = self.shard_members(place).index(self.rank_at(place))
        blocks = range(0, self.dp, self.degree)
        return tuple(sorted(self.shard_members(Place(first, place.tensor_rank))[shard] for first in blocks))

    def _members(self, places):
        return tuple(sorted(self.rank_at(place) for place in places))


@dataclasses.dataclass(frozen=True)
class Stage:
    index: int
    devices: tuple
    segments: tuple
    recompute: frozenset
    offload_hidden: frozenset  # Of the recomputed operators: their inputs wait on the host.
    synchronized: frozenset = frozenset()  # Operators of layers before whose passes copies to and from the host are waited for.
    # Operators beside whose pass what is over leaves before what comes next is brought.
    economical_forward: frozenset = frozenset()
    economical_backward: frozenset = frozenset()

    @property
    def begin(self):
        return self.segments[0].begin

    @property
    def end(self):
        return self.segments[-1].end

    def segment_of_operator(self, operator):
        return next(segment for segment in self.segments if operator < segment.end)


@dataclasses.dataclass(frozen=True)
class Plan:
    document: dict = dataclasses.field(compare=False, repr=False)
    global_batch: int
    microbatch: int
    schedule: Schedule
    stages: tuple

    @property
    def microbatches(self):
        return self.global_batch // self.microbatch

    @property
    def digest(self):
        """Of its document: which plan ran, for logs."""
        return hashlib.sha256(json.dumps(self.document, sort_keys=True).encode()).hexdigest()[:16]

    @functools.cached_property
    def seats(self):
        """Groups of ranks that the stages go round: as many as stages but for the interleaved schedule."""
        return len({stage.devices for stage in self.stages})

    def part_of(self, microbatch):
        """How many samples one part of the microbatch has, over all replicas."""
        return self.microbatch // self.schedule.parts_of(microbatch)

    def stages_of_rank(self, rank):
        return [stage for stage in self.stages if rank in stage.devices]

    def stage_of_operator(self, operator):
        return next(stage for stage in self.stages if operator < stage.end)


def load(path, config, world_size):
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise PlanRefused(f"{path}: cannot read the plan: {error.strerror}") from error
    except ValueError as error:
        raise PlanRefused(f"{path}: not JSON: {error}") from error
    try:
        return parse(document, config, world_size)
    except PlanRefused as error:
        raise PlanRefused(f"{path}: {error}") from error


def parse(document, config, world_size):
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
    specs = operator_specs(config)
    schedule = _parse_schedule(_Fields(fields.take("schedule", {}), "plan.schedule"), global_batch // microbatch)
    stage_documents = fields.some("stages", "must be a list of at least one stage")
    knobs = fields.object("target_knobs")
    sequence = knobs.flag("sequence_parallel")
    knobs.nothing_else()
    fields.nothing_else()
    reader, stages, begin = _Stages(specs, config, microbatch, schedule, sequence), [], 0
    for index, stage_document in enumerate(stage_documents):
        stages.append(reader.parse(stage_document, index, begin))
        begin = stages[-1].end
    if begin != len(specs):
        raise PlanRefused(f"plan.stages: cover operators [0, {begin}), but the model has {len(specs)}")
    plan = Plan(document, global_batch, microbatch, schedule, tuple(stages))
    if schedule.kind == "interleaved":
        _check_rounds(plan)
        stages = stages[: plan.seats]
    devices = [device for stage in stages for device in stage.devices]
    if sorted(devices) != list(range(world_size)):
        raise PlanRefused(
            f"plan.stages: their devices must be 0 to {world_size - 1}, each once, found {devices}")
    if schedule.sliced_microbatches > len(stages) - 1:
        raise PlanRefused(f"plan.schedule.sliced_microbatches: must be at most {len(stages) - 1}, the stages before "
                          f"the last, found {schedule.sliced_microbatches}")
    return plan


def _check_rounds(plan):
    """Interleaved stages go round groups of devices, and groups of as many microbatches go round with them."""
    seats, stages = plan.seats, plan.stages
    if seats < 2 or seats == len(stages) or len(stages) % seats:
        raise PlanRefused("plan.stages: the interleaved schedule needs two groups of devices or more with as many stages on "
                          f"each, two or more, found {len(stages)} stages on {seats}")
    for stage in stages[seats:]:
        if stage.devices != stages[stage.index % seats].devices:
            raise PlanRefused(f"plan.stages[{stage.index}].devices: must be those of stages[{stage.index % seats}]: "
                              f"interleaved stages go round the same groups of devices, found {list(stage.devices)}")
    if plan.microbatches % seats:
        raise PlanRefused(f"plan.microbatch: the interleaved schedule needs a multiple of its {seats} groups of devices as "
                          f"microbatches of a step, found {plan.microbatches}")


def _parse_schedule(fields, microbatches):
    kind = fields.one_of("kind", ("1f1b", "gpipe", "interleaved"), "must be 1f1b, gpipe or interleaved")
    transfers = fields.one_of("transfers", ("blocking", "eager"), "must be blocking or eager")
    sub_batches = max(1, fields.integer("sub_batches", 1, least=0))
    sliced = fields.integer("sliced_microbatches", 0, least=0)
    if sliced > microbatches:
        fields.refuse("sliced_microbatches", f"must be at most the {microbatches} microbatches of a step")
    if sliced and kind != "1f1b":
        fields.refuse("sliced_microbatches", f"must be 0 with {kind}: 1f1b alone has a warm-up that this shortens")
    if sliced and sub_batches > 1:
        fields.refuse("sliced_microbatches", "must be 0 with sub-batches: they divide microbatches already")
    flags = {}
    for name in ("cross_pass", "recompute_after_communication"):
        flags[name] = fields.flag(name)
        if flags[name] and sub_batches == 1:
            fields.refuse(name, "needs schedule.sub_batches of 2 or more")
    fields.nothing_else()
    return Schedule(kind, transfers == "eager", sliced, sub_batches, **flags)


# Lists of operators in a segment's document, of which its stage has one each: document's name -> field's.
_OF_STAGES = {"recompute": "recompute", "offload_hidden": "offload_hidden", "segment_sync": "synchronized",
              "economical_forward": "economical_forward", "economical_backward": "economical_backward"}


class _Stages:
    """Reads the stages of a plan."""

    def __init__(self, specs, config, microbatch, schedule, sequence):
        self._specs, self._config, self._microbatch = specs, config, microbatch
        self._schedule, self._sequence, self._first = schedule, sequence, None

    def parse(self, document, index, begin):
        fields = _Fields(document, f"plan.stages[{index}]")
        devices = fields.some("devices", "must be a list of at least one device number", int)
        if len(set(devices)) != len(devices):
            fields.refuse("devices", "must name each device once")
        documents = fields.some("segments", "must be a list of at least one segment")
        fields.nothing_else()
        segments, listed, end = [], {name: set() for name in _OF_STAGES}, begin
        for number, segment_document in enumerate(documents):
            segment_fields = _Fields(segment_document, f"{fields.path}.segments[{number}]")
            segments.append(self._segment(segment_fields, tuple(devices), end, listed))
            end = segments[-1].end
        return Stage(index, tuple(devices), tuple(segments),
                     **{field: frozenset(listed[name]) for name, field in _OF_STAGES.items()})

    def _segment(self, fields, devices, begin, listed):
        operators = len(self._specs)
        first, end = fields.operator_range("operators", fields.take("operators", None), begin, operators)
        if first != begin:
            fields.refuse("operators", f"must begin at {begin}, where the segment before ends")
        tp, dp, cp = self._degrees(fields, len(devices))
        for spec in self._specs[first:end]:
            why = why_not_split(spec, self._config, tp)
            if why:
                fields.refuse("tp", f"must divide what is split: {why}")
        sharded, degree = _sharding(fields, dp)
        consecutive = fields.flag("tp_consecutive", True)
        switches = fields.object("switches")
        for name, found in listed.items():
            found.update((fields if name == "recompute" else switches).operators(name, first, end))
        kept = listed["offload_hidden"] - listed["recompute"]
        if kept:
            switches.refuse("offload_hidden", f"operator {min(kept)} keeps more than its input: it must be recomputed too")
        partitioned, lazy = (switches.operators(name, first, end) for name in ("partition_parameters", "lazy_prefetch"))
        if partitioned and dp > 1 and sharded != "gradients":
            switches.refuse("partition_parameters", "needs gradients that are sharded over the replicas")
        if lazy - partitioned:
            switches.refuse("lazy_prefetch", f"operator {min(lazy - partitioned)} keeps its gathered parameters: it must be "
                                             "in partition_parameters too")
        offload_optimizer = switches.flag("offload_optimizer")
        switches.nothing_else()
        fields.nothing_else()
        # With one replica, or one rank in each, both orders are the same.
        segment = Segment(devices, first, end, dp * cp, tp, consecutive or dp * cp == 1 or tp == 1, sharded,
                          1 if sharded == "none" else degree * cp, offload_optimizer, frozenset(partitioned),
                          frozenset(lazy), cp, self._sequence and tp > 1)
        self._check_sharing(fields, segment)
        return segment

    def _check_sharing(self, fields, segment):
        """What ranks that share sequences rule out; the tuner has no price of it either."""
        first = self._first = self._first or segment
        if self._sequence and first.tp == 1:
            raise PlanRefused("plan.target_knobs.sequence_parallel: needs tp above 1")
        if first.parts == segment.parts == 1:
            return
        for name in ("tp", "cp"):
            if getattr(segment, name) != getattr(first, name):
                fields.refuse(name, f"must be the first segment's, {getattr(first, name)}, where ranks share sequences")
        if self._config.sequence % segment.parts:
            fields.refuse("cp", f"ranks share each sequence in {segment.parts} equal parts (cp, times tp with "
                                f"sequence_parallel), but it is {self._config.sequence} long")
        if not segment.consecutive:
            fields.refuse("tp_consecutive", "must be true where ranks share sequences")
        if any(fields.was("switches", {}).values()):
            fields.refuse("switches", "must be off where ranks share sequences")
        if self._schedule.sub_batches > 1:
            raise PlanRefused("plan.schedule.sub_batches: must be 1 where ranks share sequences, found "
                              f"{self._schedule.sub_batches}")

    def _degrees(self, fields, devices):
        tp = fields.integer("tp", 1)
        if devices % tp:
            fields.refuse("tp", f"must divide the number of the stage's devices, {devices}")
        cp = fields.integer("cp", 1)
        if devices % (tp * cp):
            fields.refuse("cp", f"times tp, {tp}, must divide the number of the stage's devices, {devices}")
        dp, needed = fields.integer("dp", 1), devices // (tp * cp)
        if dp != needed:
            fields.refuse("dp", f"must be {needed}: dp * tp * cp is the number of the stage's devices, {devices}")
        parts = self._schedule.parts
        if self._microbatch % (dp * parts):
            of_parts = f" in {parts} parts" if parts > 1 else ""
            raise PlanRefused(f"plan.microbatch: {self._microbatch} must be a multiple of {dp * parts}, for the "
                              f"{dp} replicas of {fields.path}{of_parts}")
        return tp, dp, cp


def _sharding(fields, dp):
    """(level, degree), with ("none", 1) for whatever shards nothing."""
    degree = fields.take("sharded_degree", 0)
    level = fields.one_of("sharded", ("none", "optimizer", "gradients", "parameters"),
                          "must be none, optimizer, gradients or parameters")
    if type(degree) is not int or degree < 0 or (degree and dp % degree):
        fields.refuse("sharded_degree", f"must divide dp, {dp}, or be 0 for all of it")
    if level == "none":
        return level, 1
    if dp < 2:
        fields.refuse("sharded", "needs two replicas or more to shard over")
    if degree == 1:
        fields.refuse("sharded_degree", f"must be 2 or more, or 0 for all of dp {dp}")
    return level, degree or dp


class _Fields:
    """A JSON object being read: whoever takes all that is understood can refuse what is left."""

    def __init__(self, document, path):
        if not isinstance(document, dict):
            raise PlanRefused(f"{path}: must be an object, found {json.dumps(document)[:80]}")
        self._document = document
        self._left = dict(document)
        self.path = path

    def was(self, name, default):
        """What the document says, taken or not."""
        return self._document.get(name, default)

    def take(self, name, default):
        return self._left.pop(name, default)

    def integer(self, name, default, least=1):
        value = self.take(name, default)
        if type(value) is not int or value < least:
            self.refuse(name, f"must be an integer of {least} or more")
        return value

    def flag(self, name, default=False):
        value = self.take(name, default)
        if type(value) is not bool:
            self.refuse(name, "must be true or false")
        return value

    def one_of(self, name, choices, need):
        """The first choice is the default."""
        value = self.take(name, choices[0])
        if value not in choices:
            self.refuse(name, need)
        return value

    def some(self, name, need, kind=object):
        """A list of one element or more, all of that very type if it is given."""
        value = self.take(name, [])
        if not isinstance(value, list) or not value or not all(kind in (object, type(one)) for one in value):
            self.refuse(name, need)
        return value

    def object(self, name):
        document = self.take(name, {})
        if not isinstance(document, dict):
            self.refuse(name, "must be an object")
        return _Fields(document, f"{self.path}.{name}")

    def operator_range(self, name, pair, low, high):
        whole = isinstance(pair, list) and len(pair) == 2 and all(type(bound) is int for bound in pair)
        if not whole or not low <= pair[0] < pair[1] <= high:
            self.refuse(name, f"must be [begin, end) inside [{low}, {high})", pair)
        return pair

    def operators(self, name, low, high):
        """The operators of a list of ranges inside [low, high)."""
        ranges, result = self.take(name, []), set()
        if not isinstance(ranges, list):
            self.refuse(name, "must be a list of operator ranges")
        for number, pair in enumerate(ranges):
            result.update(range(*self.operator_range(f"{name}[{number}]", pair, low, high)))
        return result

    def refuse(self, name, need, found=None):
        if found is None:
            found = self._document.get(name)
        raise PlanRefused(f"{self.path}.{name}: {need}, found {json.dumps(found)[:80]}")

    def nothing_else(self):
        """Refuse fields that are on and that nobody took. A field that is off asks for nothing."""
        for name, value in self._left.items():
            if value not in (None, False, 0, "", "none", [], {}):
                self.refuse(name, "is not honoured by this trainer")
