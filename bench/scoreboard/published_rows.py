"""Reads a table of published plans: each row becomes a question for `trimtab plan estimate`, beside what was measured.

    from published_rows import read_rows
    for row in read_rows("plans.csv"):
        row.question     # a dict, or None. Then row.refusal says why
        row.step_s       # measured seconds, or None

Nothing that was measured goes into a question: hardware, shape and plan alone. A row that cannot be read becomes a row
without a question. What a row leaves open is taken as usual for its software, and `row.assumed` names it:

- an empty `mbs` is one sample, an empty `vpp` one chunk, an empty `cp` or `pp` or `tp` 1;
- an empty `recompute` is none. Of MaxText it is half of the products: NVIDIA's recipes keep all but the products into the
  mlp (save_dot_except_mlpwi and save_dot_except_mlp of v24.11.1, save_qkv_proj of v25.02 of NVIDIA/dgxc-benchmarking,
  maxtext/configure.sh);
- an empty `sequence_parallel` is 1 for Megatron-Core with tensor parallelism;
- an empty `overlap` of NeMo's recipes is all that NeMo's recipes switch on, since later releases of them say so;
- NeMo's recipes reduce gradients as bfloat16 (grad_sync_dtype: bf16 in the same repository's llama3.1/llama3.1_70b.yaml,
  grad_reduce_in_fp32 = False in its llama3.1/pretrain_llama31.py of v25.04);
- "selective blocks (fraction not stated)" is every second layer, but of fms-fsdp the share that follows from its README's HFU
  and MFU (fms_share);
- Kuaishou's fork of Megatron-LM, and the snapshot of January 2024 beside it, compute swiglu by two kernels
  (megatron/model/transformer.py, megatron/core/transformer/mlp.py of kwai/Megatron-Kwai@b2646e4d);
- Nanotron of early 2025 reduces gradients beside the last backward pass without ZeRO alone (its trainer.py of 0e0a27ea);
- Omni-Path links have 100 Gbit/s each, since no other were sold then. EFA beside H100s is that of AWS's p5 instances,
  3,200 Gbit/s a node. Other rates that are not stated stay out. A fabric that is stated (RoCE, EFA) is told.

Models with experts, and with latent attention (MLA), cannot be said by a question's shape. They have no question, and
their family is NAME.experts: all published models with latent attention have experts, too.
"""

import csv
import dataclasses
import re

GIB = 2.0**30
NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")


@dataclasses.dataclass
class Row:
    id: str
    family: str  # with ".experts"
    cell: str
    clean: bool  # without flags
    flags: frozenset
    outcome: str  # ran, oom, failed
    question: dict | None
    refusal: str  # why there is no question
    assumed: list
    step_s: float | None
    tokens_per_s_per_gpu: float | None
    memory_bytes: float | None
    memory_kind: str  # a key of MEMORY_KINDS, or empty
    evidence: str  # of being out of memory: over, near, under, or empty
    peer: str
    peer_step_s: float | None
    peer_memory_bytes: float | None
    columns: dict  # all, as text


# Of a memory column's words -> what an estimate has to be compared with. The first that matches counts.
# first_peak       PyTorch's peak on rank 0. Whether allocated or reserved is not stated, and nanotron's table has both. What
#                  its source keeps is 20 % below as allocated, and agrees without tensor parallelism, where the two are
#                  close. So reserved is compared.
# nvidia_smi       of the first or the last stage's GPU, whichever is fuller.
# printed          "GPU memory", tool not stated. A profile of the process is compared: what the driver tells.
# allocated_last   Megatron-LM logs memory from its last rank, which has the last stage.
MEMORY_KINDS = (
    ("first_peak", r"first stage\)|rank 0|not stated;? allocated|allocated or reserved"),
    ("nvidia_smi", r"nvidia-?smi"),
    ("reserved", r"reserved"),
    ("allocated_last", r"allocated.*logging rank"),
    ("allocated", r"allocated"),
    ("printed", r"as printed|tool not stated|gpu memory"),
)


def read_rows(path):
    csv.field_size_limit(1 << 24)
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        return [row_of(columns) for columns in csv.DictReader(line.replace("\0", "") for line in file)]


def row_of(columns):
    text = {key: (value or "").strip() for key, value in columns.items() if isinstance(key, str) and not isinstance(value, list)}
    get = _Columns(text)
    try:
        question, refusal, assumed = _question(get)
    except (ArithmeticError, LookupError, TypeError, ValueError) as problem:
        question, refusal, assumed = None, f"the row cannot be read: {problem}", []
    family = get["family"] or "unnamed"
    if has_experts(get):
        family += ".experts"
    flags = frozenset(flag.strip() for flag in get["flags"].split(";") if flag.strip())
    gib = get.number("memory_gib")
    return Row(
        id=get["id"],
        family=family,
        cell=get["cell"],
        clean=not flags,
        flags=flags,
        outcome=get["outcome"].lower() or "ran",
        question=question,
        refusal=refusal,
        assumed=assumed,
        step_s=_positive(get.number("step_s")),
        tokens_per_s_per_gpu=_measured_rate(get),
        memory_bytes=gib * GIB if _positive(gib) else None,
        memory_kind=memory_kind(get["memory_kind"]) if _positive(gib) else "",
        evidence=get["oom_evidence"].split(":")[0].strip().lower(),
        peer=get["peer"],
        peer_step_s=_positive(get.number("peer_predicted_s")),
        peer_memory_bytes=_scaled(_positive(get.number("peer_predicted_gib")), GIB),
        columns=text,
    )


def has_experts(get):
    return (get.number("experts") or 0) > 1 or "mla" in get["attention"].lower()


def memory_kind(words):
    words = words.lower()
    for kind, pattern in MEMORY_KINDS:
        if re.search(pattern, words):
            return kind
    return "printed"


class _Columns:
    """Columns by name. One that is absent is empty."""

    def __init__(self, text):
        self.text = text

    def __getitem__(self, name):
        return self.text.get(name, "")

    def number(self, name):
        match = NUMBER.fullmatch(self[name].replace(",", ""))
        value = float(match.group()) if match else None
        return value if value is None or abs(value) < 1e18 else None

    def count(self, name, otherwise=None):
        """A whole number above 0."""
        value = self.number(name)
        return int(value) if value is not None and value >= 1 else otherwise


def _positive(value):
    return value if value is not None and value > 0 else None


def _scaled(value, factor):
    return None if value is None else value * factor


def _measured_rate(get):
    rate = _positive(get.number("tok_s_gpu"))
    if rate is not None:
        return rate
    step, batch, sequence, gpus = get.number("step_s"), _batch(get), get.count("seq"), get.count("gpus")
    return batch * sequence / step / gpus if step and batch and sequence and gpus else None


def _batch(get):
    stated = get.count("gbs")
    if stated:
        return stated
    product = [get.count(name) for name in ("mbs", "grad_acc", "dp")]
    return product[0] * product[1] * product[2] if all(product) else None


def _question(get):
    if has_experts(get):
        return None, "experts and latent attention have no price", []
    missing = [name for name in ("gpus", "layers", "hidden", "ffn", "heads", "seq") if get.count(name) is None]
    if missing or not get["gpu"]:
        return None, "not stated: " + ", ".join(missing if get["gpu"] else ["gpu", *missing]), []
    assumed = []
    framework = framework_of(get["software"], get["sharding"], get["other"])
    question = {"gpu": get["gpu"], "gpus": get.count("gpus")}
    if get.count("gpus_per_node"):
        question["gpus_per_node"] = get.count("gpus_per_node")
    network = _network(get, assumed)
    if network:
        question["network"] = network
    question["model"] = _model(get, framework, assumed)
    question["plan"] = _plan(get, framework, assumed)
    return question, "", assumed


def _network(get, assumed):
    """ "400G", "400G RoCE", or nothing."""
    words = get["inter_link"].lower()
    fabric = next((name for name in ("RoCE", "EFA", "Omni-Path") if name.lower() in words), "")
    rate = _positive(get.number("inter_gbps_per_gpu"))
    if rate is None and fabric == "EFA" and "h100" in get["gpu"].lower():
        assumed.append("EFA of 400 Gbit/s a GPU")
        rate = 400.0
    links = re.search(r"(\d+)\s*(?:x\s*)?omni-?path", words)
    if rate is None and links and get.count("gpus_per_node"):
        assumed.append("Omni-Path links of 100 Gbit/s")
        rate = 100.0 * int(links.group(1)) / get.count("gpus_per_node")
    return f"{rate:g}G {fabric}".strip() if rate else None


def _model(get, framework, assumed):
    heads = get.count("heads")
    gated = _flag(get["gated_mlp"], True)
    gpt = is_gpt(get, framework)
    if not get.count("vocab"):
        assumed.append("a vocabulary of 50304")
    return {
        "name": get["model"],
        "layers": get.count("layers"),
        "hidden": get.count("hidden"),
        "ffn": get.count("ffn"),
        "heads": heads,
        "kv_heads": get.count("kv_heads", heads),
        "head_dim": get.count("head_dim", get.count("hidden") // heads),
        "vocabulary": get.count("vocab", 50304),
        "sequence": get.count("seq"),
        "positions": get.count("seq") if gpt or "learned position" in get["other"].lower() else 0,
        "gated": gated,
        "tied": _flag(get["tied"], False),
        "rms": "rms" in get["norm"].lower() or (not get["norm"] and gated),
        "bias": gpt,
    }


def is_gpt(get, framework):
    """A GPT of Megatron-LM's: biases and learned positions, which its arguments have unless told otherwise.

    Nemotron has neither.
    """
    if _flag(get["gated_mlp"], True) or "rms" in get["norm"].lower() or "no bias" in get["other"].lower():
        return False
    if "nemotron" in get["model"].lower():
        return False
    return framework.startswith("megatron")


def framework_of(software, sharding="", other=""):
    words = software.lower()
    if "nanotron" in words:
        return "nanotron"
    if "maxtext" in words or "jax" in words:
        return "maxtext"
    if "torchtitan" in words:
        return "compiled-fsdp" if "compile" in other.lower() else "fsdp"
    if "fms" in words:
        return "compiled-fsdp"
    if re.search(r"megatron.*deepspeed|deepspeed.*megatron", words) or re.search(r"megatron-lm[^@]*202[01]", words):
        return "megatron-2021"
    if re.search(r"megatron-lm[^@]*2022", words):
        return "megatron-2022"
    if re.search(r"megatron|nemo|mcore|transformer ?engine", words):
        return "megatron"
    if "deepspeed" in words:
        return "deepspeed"
    if re.search(r"foundry|composer|internevo|fsdp|accelerate|transformers", words + sharding.lower()):
        return "compiled-fsdp" if "compile" in other.lower() else "fsdp"
    return "megatron"


def _plan(get, framework, assumed):
    tensor, stages, context = get.count("tp", 1), get.count("pp", 1), get.count("cp", 1)
    model_parallel = tensor * stages * context
    gpus = get.count("gpus")
    if gpus % model_parallel:
        raise ValueError(f"{gpus} GPUs are not divided by tp*pp*cp = {model_parallel}")
    replicas = gpus // model_parallel
    batch = _batch(get)
    if batch is None:
        raise ValueError("neither gbs nor mbs, grad_acc and dp are stated")
    if not get.count("mbs"):
        assumed.append("microbatches of one sample")
    plan = {
        "dp": replicas,
        "tp": tensor,
        "pp": stages,
        "vpp": get.count("vpp", 1),
        "cp": context,
        "microbatch": get.count("mbs", 1),
        "global_batch": batch,
        "sequence_parallel": _sequence_parallel(get, framework, tensor, assumed),
        "fused_attention": "unfused" not in get["attention_kernel"].lower() and "no flash" not in get["attention_kernel"].lower(),
        "flash2": bool(re.search(r"kwai|flash-?attn|flash2", (get["software"] + get["attention_kernel"]).lower())),
        "fused_activation": "kwai" not in get["software"].lower(),
        "fused_accumulation": "no gradient accumulation fusion" not in get["other"].lower(),
        "switch_sums": not re.search(r"nccl (ring|tree)", get["other"].lower()),
        "compiled_loss": compiles_loss(get),
        "overlap": overlap_of(get, framework, assumed),
        "framework": framework,
    }
    plan.update(sharded_of(get, replicas, context, framework))
    plan.update(recompute_of(get["recompute"], framework, get.count("layers"), assumed))
    share = fms_share(get)
    if share is not None:
        assumed[-1] = "the README's HFU and MFU say how many layers are recomputed"
        plan["recomputed_share"] = share
    plan.update(precision_of(get["precision"], framework, get["sharding"] + " " + get["software"]))
    offloaded = re.search(r"activation offload ratio\s*([\d.]+)", get["other"])
    if offloaded:
        plan["offloaded_activations"] = min(1.0, float(offloaded.group(1)))
    if re.search(r"optimizer.*offload|offload.*optimizer", get["other"].lower()):
        plan["offloaded_optimizer"] = True
    return plan


def compiles_loss(get):
    """Whether the loss makes no logits of float32.

    torchtitan compiles it with the model since 2025. In 2024 its train.py left the loss out. MPT's is a fused kernel
    unless told otherwise (loss_fn in llmfoundry/models/mpt/modeling_mpt.py). NeMo's models have cross_entropy_loss_fusion.
    """
    if re.search("foundry|nemo|megatron-bridge", get["software"].lower()):
        return True
    since = re.search(r"torchtitan (\d{4})", get["software"].lower())
    return bool(since) and int(since.group(1)) >= 2025 and "compile" in get["other"].lower()


def _sequence_parallel(get, framework, tensor, assumed):
    if get["sequence_parallel"]:
        return _flag(get["sequence_parallel"], False)
    if framework == "megatron" and tensor > 1:
        assumed.append("sequence parallelism")
        return True
    return False


def _flag(words, otherwise):
    words = words.lower()
    if words in ("1", "1.0", "true", "yes"):
        return True
    if words in ("0", "0.0", "false", "no"):
        return False
    return otherwise


def sharded_of(get, replicas, context, framework):
    """What is divided, and over how many replicas. 0 is all of them."""
    words = get["sharding"].lower()
    stage = get.number("zero")
    if stage is None:
        stage = _stage_in(words)
    plan = {"sharded": ("nothing", "optimizer", "gradients", "parameters")[max(0, min(3, int(stage)))]}
    if "shard_grad_op" in words:  # parameters are gathered in the forward pass and kept until the backward pass has ended
        plan.update(sharded="parameters", reshard=False)
    over = re.search(r"over (\d+)|fsdp(\d+) x dp", words)
    if over:
        devices = int(over.group(1) or over.group(2))
        if devices < replicas * context:
            plan["sharded_over"] = max(1, devices // context)
    elif "hsdp" in words or "hybrid" in words:
        plan["sharded_over"] = min(replicas, max(1, get.count("gpus_per_node", 8) // (get.count("tp", 1) * context)))
    if plan.get("sharded_over") == 1:
        plan.update(sharded="nothing", sharded_over=0)
    return plan


def _stage_in(words):
    stated = re.search(r"zero-?\s*([0-3])", words)
    if stated:
        return int(stated.group(1))
    if "shard_grad_op" in words:
        return 2
    if "fsdp" in words or "hsdp" in words or "full_shard" in words:
        return 3
    return 1 if re.search(r"distributed optimizer|optimizer states", words) else 0


def recompute_of(words, framework, layers, assumed):
    words = words.lower()
    if not words:
        assumed.append("what is recomputed")
        return {"recompute": "half_of_products" if framework == "maxtext" else "nothing"}
    if words.startswith("none") or words in ("no", "0"):
        return {"recompute": "nothing"}
    if re.search(r"per-op|by operator", words):
        return {"recompute": "half_of_products"}
    if re.search(r"attention core|core.?attn|attn", words):
        return {"recompute": "attention_core"}
    if re.search(r"norm|\bact|activation function|mlp activation", words) and "checkpoint-activations" not in words:
        return {"recompute": "activations"}
    share = _share(words, layers)
    if share is None and re.search(r"fraction|blocks", words) and "full" not in words:
        assumed.append("every second layer is recomputed")
        share = 0.5
    if share is None and "selective" in words:
        return {"recompute": "attention_core"}
    plan = {"recompute": "layer"}
    if share is not None:
        plan["recomputed_share"] = share
    return plan


def _share(words, layers):
    """"1/3", "10 of 32 layers", "50 %", "8 layers"."""
    for pattern, of_layers in ((r"(\d+)\s*(?:/|of)\s*(\d+)", False), (r"([\d.]+)\s*%", False), (r"(\d+) layers", True)):
        found = re.search(pattern, words)
        if found and found.lastindex == 2:
            share = float(found.group(1)) / float(found.group(2))
        elif found:
            share = float(found.group(1)) / (layers if of_layers else 100.0)
        else:
            continue
        return min(1.0, max(0.0, share))
    return None


# MFU and HFU by foundation-model-stack/fms-fsdp's README at 5a296af, on A100 and on H100.
FMS_UTILIZATION = {
    "Llama-2-13B": {"A100": (0.61, 0.69), "H100": (0.43, 0.46)},
    "Llama-2-34B": {"A100": (0.55, 0.74), "H100": (0.38, 0.49)},
    "Llama-2-70B": {"A100": (0.55, 0.74), "H100": (0.38, 0.47)},
}


def fms_share(get):
    """The share of layers that fms-fsdp recomputes, or None.

    HFU counts what is recomputed, MFU does not, and seconds are in neither's quotient. It is 4/3 where all layers are recomputed.
    So it is in the same file before 3b1ce15, whose table says so in words: 0.64 / 0.47 and 0.67 / 0.50.
    """
    utilization = FMS_UTILIZATION.get(get["model"], {}).get(get["gpu"][:4])
    if not utilization or "fms" not in get["software"].lower() or "fraction not stated" not in get["recompute"]:
        return None
    model, hardware = utilization
    return round(min(1.0, 3 * (hardware / model - 1)), 2)


def overlap_of(get, framework, assumed):
    words, software = get["overlap"].lower(), get["software"].lower()
    if words.startswith("none"):
        return []
    if framework in ("fsdp", "compiled-fsdp", "maxtext", "deepspeed") and "gradient sync" not in words:  # they prefetch
        return ["gradients", "parameters"] + (["tensor"] if re.search(r"async tp|tp comm|\btp\b", words) else [])
    if framework == "nanotron":  # with ZeRO there is no DDP, and gradients are reduced after the last backward pass
        hidden = [] if get.number("zero") else ["gradients"]
        return hidden + (["tensor"] if "tp_linear_async" in words else [])
    if not words and "nemo" in software:
        assumed.append("what is overlapped")
        return ["tensor", "transfers", "gradients", "parameters"]
    found = []
    for name, pattern in (
        ("tensor", r"\btp\b|tensor|tp_linear"),
        ("transfers", r"p2p|\bpp\b|pipeline"),
        ("gradients", r"grad"),
        ("parameters", r"param"),
    ):
        if re.search(pattern, words):
            found.append(name)
    return found


def precision_of(words, framework, where):
    """Types, and bytes of a parameter's gradient and optimizer states."""
    words = words.lower()
    if "fp8" in words or "float8" in words:
        precision = "float8"
    else:
        precision = "float16" if words.startswith(("fp16", "float16")) else "bfloat16"
    plan = {"precision": precision, "rowwise_scales": "rowwise" in words, "gradient_bytes": 4, "optimizer_bytes": 12}
    if "pure" in words or "low-precision optimizer" in words:  # two moments of two bytes, no master copy
        plan.update(gradient_bytes=2, optimizer_bytes=4)
    elif "fp32 grad" in words:
        pass
    elif framework in ("megatron-2021", "megatron-2022") and precision == "float16":  # the optimizer's copy of a gradient is float32
        plan.update(gradient_bytes=2, optimizer_bytes=16)
    elif re.search(r"internevo|fms|nemo", where.lower()):  # gradients are reduced as they come
        plan.update(gradient_bytes=2)
    return plan
