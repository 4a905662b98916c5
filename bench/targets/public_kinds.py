"""What a script or a configuration of Megatron-LM's trains, told by its own text and its folder. Nothing of Trimtab is asked."""

import re

DENSE = "dense GPT, its size in the file"
ORDER = [
    DENSE,
    "dense GPT, its size in a checkpoint (--use-checkpoint-args)",
    "GPT, its size left to who starts it",
    "dense GPT beside a teacher (distillation)",
    "GPT with sparse attention",
    "GPT with experts",
    "no GPT: an encoder (BERT, T5)",
    "no GPT: hybrid layers (Mamba)",
    "no GPT: images, video or sound",
    "another trainer's (NeMo): no options of Megatron-LM",
    "nothing that trains: data, conversion, settings or a launcher, without a size",
]
(_, CHECKPOINT, LEFT, TAUGHT, SPARSE, EXPERTS, ENCODER, HYBRID, IMAGES, NEMO, NOTHING) = ORDER

# tests/functional_tests/test_cases/FOLDER; the recipe of the same name in tests/test_utils/recipes says which program it runs.
TEST_FOLDERS = {"bert": ENCODER, "t5": ENCODER, "hybrid": HYBRID, "nemotron": HYBRID, "mimo": IMAGES, "multimodal-llava": IMAGES,
                "gpt-nemo": NEMO}
PROGRAMS = {ENCODER: r"pretrain_(bert|t5)\.py", HYBRID: r"(pretrain|run)_hybrid\w*\.py", IMAGES: r"examples/(multimodal|mimo)/\w+\.py"}
OPTIONS = [(HYBRID, {"hybrid-layer-pattern", "hybrid-override-pattern"}), (IMAGES, {"language-model-type", "img-h"}),
           (EXPERTS, {"num-experts"}), (SPARSE, {"experimental-attention-variant"}), (TAUGHT, {"export-kd-teacher-load"}),
           (CHECKPOINT, {"use-checkpoint-args"})]


def text_of(path, depth=0):
    """Without remarks; with the files beside it that a script takes in, whatever stands before their names."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    for line in list(lines) if path.suffix == ".sh" and depth < 3 else []:
        taken = re.match(r"\s*(?:\.|source)\s+\S*?([\w.-]+\.sh)\s*$", line.replace("`", "").replace('"', "").replace(")/", "/"))
        beside = path.parent / taken[1] if taken else None
        if beside is not None and beside.is_file():
            lines += text_of(beside, depth + 1).splitlines()
    return "\n".join(lines)


def is_number(text, value):
    """Whether an option's value is one, or a variable that the text sets to one."""
    if re.fullmatch(r"\d+", value):
        return True
    name = re.fullmatch(r"\$\{?(\w+)\}?", value)
    return bool(name and re.search(rf"\b{name[1]}=(?:\d+\b|\$\(\(|\$\{{{name[1]}:-\d+\}})", text))


def kind_of(folder, path):
    text = text_of(path)
    names = set(re.findall(r"(?<![\w-])--([A-Za-z][\w-]*)", text))
    parts = path.relative_to(folder).parts
    if parts[0] == "tests" and parts[-3] in TEST_FOLDERS:
        return TEST_FOLDERS[parts[-3]]
    for kind, options in OPTIONS[:2]:
        if names & options:
            return kind
    for kind, program in PROGRAMS.items():
        if re.search(program, text) and not re.search(r"pretrain_gpt\.py", text):
            return kind
    for kind, options in OPTIONS[2:]:
        if names & options:
            return kind
    layers = re.findall(r"--num-layers(?::\s*|[\s=]+)[\"']?([^\s\"']+)", text)
    if layers:
        return DENSE if is_number(text, layers[-1]) else LEFT
    takes_model = re.search(r"pretrain_gpt\.py|\$\{?MODEL_ARGS\}?", text)
    return LEFT if takes_model else NOTHING
