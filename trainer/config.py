"""The model's TOML file, read into a value that cannot be wrong."""
import dataclasses
import difflib
import tomllib

import torch

from errors import BadInput


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Shape and training recipe. Nothing in it may depend on the plan: it fixes what is learnt."""

    name: str
    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int
    global_batch: int
    dropout: float = 0.0
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    seed: int = 1
    tied: bool = False
    precision: str = "float32"  # Of activations and matrix products; parameters, gradients and moments are float32.
    padding: float = 0.0  # Up to this share of each sample's end is padding, which no loss counts.

    @property
    def dtype(self):
        return PRECISIONS[self.precision]


PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_AT_LEAST_ONE = ("layers", "hidden", "heads", "sequence", "vocabulary", "global_batch")


def load(path):
    """Read and check the file at `path`; raises BadInput naming the file and the key."""
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise BadInput(f"{path}: cannot read the model file: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path}: not TOML: {error}") from error
    return from_document(document, path)


def from_document(document, path="model file"):
    fields = {field.name: field for field in dataclasses.fields(ModelConfig)}
    for key in document:
        if key not in fields:
            near = difflib.get_close_matches(key, fields, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadInput(f"{path}: unknown key {key}{hint}")
    for name, field in fields.items():
        if name not in document:
            if field.default is dataclasses.MISSING:
                raise BadInput(f"{path}: {name} is missing")
            continue
        value = document[name]
        wanted = (int, float) if field.type is float else field.type
        if not isinstance(value, wanted) or (isinstance(value, bool) and field.type is not bool):
            raise BadInput(f"{path}: {name} must be {field.type.__name__}, found {value!r}")
    config = ModelConfig(**document)
    for name in _AT_LEAST_ONE:
        if getattr(config, name) < 1:
            raise BadInput(f"{path}: {name} must be at least 1, found {getattr(config, name)}")
    for wrong, why in (
            (config.hidden % config.heads, f"heads must divide hidden ({config.hidden}), found {config.heads}"),
            (config.vocabulary < 4 or config.sequence < 2, "needs a vocabulary of 4 or more and a sequence of 2 or more"),
            (not 0.0 <= config.dropout < 1.0, f"dropout must lie in [0, 1), found {config.dropout}"),
            (config.precision not in PRECISIONS,
             f"precision must be {' or '.join(PRECISIONS)}, found {config.precision}"),
            (not 0.0 <= config.padding < 1.0, f"padding must lie in [0, 1), found {config.padding}"),
            (config.tied, "tied must be false: this trainer does not share parameters between stages")):
        if wrong:
            raise BadInput(f"{path}: {why}")
    return config
