"""How Megatron-LM runs here: its source travels along, with PyTorch's own kernels and made-up data. Not named after it, since
programs that import it look here, too."""
import pathlib
import sysconfig

from . import child
from .installation import free_port
from .sections import Skipped

BATCH = 8
MODEL = ("--num-layers", "12", "--hidden-size", "1024", "--num-attention-heads", "16", "--seq-length", "1024",
         "--max-position-embeddings", "1024", "--vocab-size", "31999", "--bf16")
USUAL = ("--make-vocab-size-divisible-by", "128", "--transformer-impl", "local", "--mock-data", "--tokenizer-type", "NullTokenizer",
         "--no-gradient-accumulation-fusion", "--no-persist-layer-norm", "--no-masked-softmax-fusion", "--attention-softmax-in-fp32",
         "--no-rope-fusion", "--no-bias-gelu-fusion", "--no-bias-dropout-fusion", "--eval-iters", "1", "--eval-interval", "1000000",
         "--log-interval", "1", "--distributed-timeout-minutes", "5", "--lr", "1.5e-4", "--lr-decay-iters", "2000",
         "--train-iters", "2000")
PARTS = "megatron/, pretrain_gpt.py, gpt_builders.py, model_provider.py, hybrid_builders.py, mamba_builders.py"


def environment():
    """Of the only rank."""
    return {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
            "CUDA_DEVICE_MAX_CONNECTIONS": "1", "NO_VCS_VERSION": "1"}


def ready(source, inherited, budget):
    """The repository, with what its data sets need compiled for this Python; raises Skipped where it was not brought."""
    source = pathlib.Path(source)
    if not (source / "pretrain_gpt.py").exists():
        raise Skipped(f"there is no Megatron-LM in {source}: bring of its repository {PARTS} (--megatron)")
    helpers = source / "megatron/core/datasets"
    if (helpers / "Makefile").exists() and not (helpers / f"helpers_cpp{sysconfig.get_config_var('EXT_SUFFIX')}").exists():
        child.run(["make", "-C", helpers], budget, environment=inherited)
    return source
