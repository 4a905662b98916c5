#include "schema/launch_script.hpp"

#include <catch2/catch.hpp>
#include <utility>

#include "schema/megatron_model.hpp"

using namespace trimtab;
using Catch::Contains;

namespace {

using Words = std::vector<std::string>;

Words command_of(const std::string& text) {
  const auto script = read_script(text, "train.sh");
  INFO(text);
  REQUIRE((script.ok() ? "" : script.error().message) == "");
  REQUIRE_FALSE(script->commands.empty());
  return script->commands.back().words;
}

std::string refused(const std::string& text) {
  const auto words = launch_words(text, "train.sh", "--num-layers");
  INFO(text);
  REQUIRE_FALSE(words.ok());
  return words.error().message;
}

constexpr const char* kOptions =
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 "
    "--vocab-size 50257 --global-batch-size 512 --bf16";

LaunchWords launch(const std::string& text) {
  const auto words = launch_words(text, "train.sh", "--num-layers");
  INFO(text);
  REQUIRE((words.ok() ? "" : words.error().message) == "");
  return *words;
}

}  // namespace

TEST_CASE("a script's variables and arrays are put in, as a shell does") {
  CHECK(command_of("A=1\nB=\"x y\"\nrun $A \"$B\" $B '$A'") == Words{"run", "1", "x y", "x", "y", "$A"});
  CHECK(command_of("A=(a 'b c')\nA+=(d)\nrun \"${A[@]}\" ${A[*]} $A") ==
        Words{"run", "a", "b c", "d", "a", "b", "c", "d", "a"});
  CHECK(command_of("N=${N:-4}\nrun ${M:-5} $N ${N:-6}") == Words{"run", "5", "4", "4"});
  CHECK(command_of("N=4\nM=$((N * (2 + $N) - 1))\nrun $M $((8/0)) $((K+1))") ==
        Words{"run", "23", "$((8/0))", "$((K+1))"});
  CHECK(command_of("export A=x\nA+=y\nCMD=\"python t.py --a $A\"\neval $CMD") == Words{"python", "t.py", "--a", "xy"});
  CHECK(command_of("run a \\\n  b # rest\n") == Words{"run", "a", "b"});
  CHECK(command_of("run a$(date +%s) $1 $HOME \"$@\" > log 2>&1") == Words{"run", "a$(date +%s)", "$1", "$HOME"});
  CHECK(command_of("run a$(date +%s)b") == Words{"run", "a$(date +%s)b"});
}

TEST_CASE("what a branch settles in several ways is not settled") {
  CHECK(command_of("N=1\nif [ -n \"$X\" ]; then\n  N=2\nfi\nrun $N") == Words{"run", "$N"});
  CHECK(command_of("if [ -z \"$N\" ]; then N=2; fi\nrun $N") == Words{"run", "2"});
  CHECK(command_of("N=1\nfor N in 1 2; do\n  run $N\ndone").front() == "run");
  CHECK(command_of("A=\"-a\"\nif true; then A=\"$A -b\"; fi\nrun $A") == Words{"run", "$A"});
}

TEST_CASE("Megatron-LM's options are found as people keep them in scripts") {
  const auto parameters = [](const std::string& text) {
    const LaunchWords found = launch(text);
    const auto model = model_from_megatron(found.words, "gpt");
    INFO(text);
    REQUIRE((model.ok() ? "" : model.error().message) == "");
    Bytes bytes = 0;
    for (const Operator& op : model->model.operators) bytes += op.parameter_bytes;
    for (const TiedParameters& tied : model->model.tied_parameters) bytes -= tied.bytes;
    return bytes / 2;
  };
  const std::string options = kOptions;
  for (const std::string& text :
       {options, "GPT_ARGS=\"\n" + options + "\n\"", "GPT_ARGS=( " + options + " )", "GPT_ARGS=(" + options + ")",
        "cat <<EOF\n" + options + "\nEOF", "torchrun --nproc_per_node 8 pretrain_gpt.py " + options,
        "MODEL=(\n  # how large\n  " + options +
            "\n)\nDATA=(--data-path /d)\ntorchrun pretrain_gpt.py ${MODEL[@]} \"${DATA[@]}\"",
        "--num-layers\n24\n" + options.substr(16)}) {
    CHECK(parameters(text) == 354'871'296);
  }
  CHECK(launch("torchrun --nproc_per_node 8 pretrain_gpt.py " + options).command);
  CHECK_FALSE(launch(options).command);
  CHECK(launch("# two\nrun --num-layers 1\nrun --num-layers 2").words.back() == "2");
}

TEST_CASE("a branch is taken or passed over where its test compares known texts") {
  const std::string sizes =
      "SIZE=7B\nif [ ${SIZE} == \"1B\" ]; then\n  N=1\nelif [[ $SIZE = 7B ]]; then\n  N=7\nelse\n  N=9\nfi\nrun $N";
  CHECK(command_of(sizes) == Words{"run", "7"});
  CHECK(command_of("A=x\nif [ $A != x ]; then N=1; else N=2; fi\nrun $N") == Words{"run", "2"});
  CHECK(command_of("A=x\nN=1\nif [ $A == y ]; then\n  if [ -n \"$B\" ]; then N=2; fi\n  run 0\nfi\nrun $N") ==
        Words{"run", "1"});
  CHECK(read_script("A=x\nif [ $A == y ]; then\n  L=(1 2)\n  cat <<E\n--num-layers 2\nE\n  run 0\nfi\n", "t")
            ->documents.empty());
  CHECK(command_of("A=x\nif [ $A == y ]; then L=(1); else L=(2 3); fi\nrun ${L[@]}") == Words{"run", "2", "3"});
  // These may go either way.
  for (const std::string test : {"[ $A == x ] && [ -n \"$B\" ]", "! [ $A == x ]", "[ $B == x ]", "[[ $A == x* ]]",
                                 "[ $A == x ] || true", "[ -z $A ]", "[ $A == x", "true"}) {
    INFO(test);
    CHECK(command_of("A=x\nN=1\nif " + test + "; then\n  N=2\nfi\nrun $N") == Words{"run", "$N"});
  }
  // One before may have been taken.
  CHECK(command_of("A=x\nN=1\nif [ -n \"$B\" ]; then N=2; elif [ $A == x ]; then N=3; else N=4; fi\nrun $N") ==
        Words{"run", "$N"});
  CHECK(command_of("fi\nelse\nthen\nrun 1") == Words{"run", "1"});
}

TEST_CASE("files that a script takes in are read as if they stood there") {
  std::vector<std::string> asked;
  const SourcedText files = [&](const std::string& path) -> std::optional<std::string> {
    asked.push_back(path);
    if (path == "conf.sh") return "OPTIONS=\"--num-layers $N --hidden-size 8\"\n";
    if (path == "again.sh") return ". again.sh\n. again.sh\n";
    if (path == "broken.sh") return "N=\"3";
    return std::nullopt;
  };
  const auto words = [&](const std::string& text) {
    const auto found = launch_words(text, "train.sh", "--num-layers", files);
    return found.ok() ? found->words : Words{found.error().message};
  };
  const Words right{"run", "--num-layers", "4", "--hidden-size", "8"};
  for (const std::string named : {"conf.sh", "`pwd`/conf.sh", "$(dirname \"$0\")/conf.sh", "\"${HERE}/conf.sh\"",
                                  "$HERE/conf.sh", "\"$(dirname \"$(readlink -f \"$0\")\")/conf.sh\""}) {
    INFO(named);
    CHECK(words("N=4\n. " + named + "\nrun $OPTIONS") == right);
    CHECK(asked.back() == "conf.sh");
  }
  CHECK(words("N=4\nHERE=$(cd x && pwd)\nsource \"$HERE/conf.sh\"\nrun $OPTIONS") == right);
  // In a branch that may be passed over, and before it.
  CHECK(words("N=4\nOPTIONS=-a\nif [ -n \"$X\" ]; then . conf.sh; fi\nrun $OPTIONS --num-layers 2").at(1) ==
        "$OPTIONS");
  asked.clear();
  for (const std::string named : {"$FILE", "\"$HERE/$NAME.sh\"", "$(which x)", "\"\""}) {
    CHECK(words("source " + named + "\nrun --num-layers 2") == Words{"run", "--num-layers", "2"});
  }
  CHECK(asked.empty());
  CHECK(words("N=2\n. broken.sh\n. none.sh\nrun --num-layers $N") == Words{"run", "--num-layers", "2"});
  asked.clear();
  CHECK(words(". again.sh\nrun --num-layers 2").size() == 3);
  CHECK(asked.size() <= 64);
}

TEST_CASE("where no layers are said, the refusal says what the file is instead") {
  const std::pair<const char*, const char*> cases[] = {
      {"torchrun pretrain_t5.py --data-path x", "it runs pretrain_t5.py, which is no decoder-only GPT's"},
      {"torchrun pretrain_t5.py --encoder-num-layers 12", "it has --encoder-num-layers, and a model with an encoder"},
      {"MODEL_ARGS:\n  --hybrid-layer-pattern: M-M*\n",
       "it has --hybrid-layer-pattern, and a model with layers of several"},
      {"ARGS=(--use-checkpoint-args)\nrun ${ARGS[@]}", "it has --use-checkpoint-args, and a model whose norms"},
      {"X=1\ntorchrun pretrain_gpt.py --load ${CKPT} ${MODEL_ARGS} $MORE",
       "its command at line 2 takes \"${MODEL_ARGS}\", \"$MORE\", which it does not set"},
      {"CMD=\"python train.py ${PARAMS}\"\nsrun sh -c \"$CMD\"", "its command at line 2 takes \"${PARAMS}\""},
      {"python3 tools/preprocess_data.py --input $1",
       "it runs \"tools/preprocess_data.py\", with no option of a model"},
      {"sbatch -p ${PART} RUN.sh", "it runs \"RUN.sh\", with no option of a model"},
      {"MODEL_ARGS:\nTEST_TYPE: regular\n", "it runs no program that trains, and has no option of a model"},
      {"run --num-layers-at-start-in-bf16 2", "it runs no program that trains"},
      {"echo # --num-layers 2", "it stands there in no command, list or assignment"}};
  for (const auto& [text, reason] : cases) CHECK_THAT(refused(text), Contains(reason) && Contains("behind --"));
}

TEST_CASE("what only looks like a blank or a dash, or cannot be read, is named with its line") {
  CHECK_THAT(refused("\xef\xbb\xbf--num-layers 24"), Contains("train.sh:1") && Contains("byte order mark"));
  CHECK_THAT(refused("# x\n--num-layers\xc2\xa0 24"), Contains("train.sh:2") && Contains("U+00A0"));
  CHECK_THAT(refused("\xe2\x80\x93num-layers 24"), Contains("U+2013") && Contains("'-'"));
  CHECK_THAT(refused("--num-layers 24 \\\r\n --bf16"), Contains("train.sh:1") && Contains("carriage return"));
  CHECK_THAT(refused("run \"a\nb"), Contains("train.sh:1: the quote \""));
  CHECK_THAT(refused("{\"hidden_size\": 1}"), Contains("JSON"));
  CHECK_THAT(refused("echo hello"), Contains("--num-layers") && Contains("behind --"));
  // In remarks and quotes they stand as they are.
  CHECK(launch("# \xe2\x80\x93 sizes\necho '\xc2\xa0'\nrun --num-layers 2").words.back() == "2");
}

TEST_CASE("branches in very many branches are read in a moment") {
  std::string text = "A=x\n";
  for (int i = 0; i < 200'000; ++i) text += "if a\nthen\n";
  CHECK(command_of(text + "A=y\nrun $A") == Words{"run", "$A"});
}

TEST_CASE("a script that grows without end ends with an error") {
  std::string text = "A=xxxxxxxx\n";
  for (int i = 0; i < 40; ++i) text += "A=\"$A$A\"\n";
  for (int i = 0; i < 100; ++i) text += "run $A\n";
  const auto script = read_script(text, "train.sh");
  CHECK((script.ok() || script.error().message.find("longer than any command") != std::string::npos));
  // By the files that it takes in, too, each of which ends in time.
  const SourcedText files = [](const std::string&) {
    std::string lines;
    for (int i = 0; i < 8; ++i) lines += "run $A\n";
    return std::optional(lines);
  };
  std::string many = "A=" + std::string(1 << 19, 'x') + "\n";
  for (int i = 0; i < 64; ++i) many += ". more.sh\n";
  const auto grown = read_script(many, "train.sh", files);
  REQUIRE_FALSE(grown.ok());
  CHECK_THAT(grown.error().message, Contains("longer than any command"));
}

TEST_CASE("options in YAML are read as Megatron-LM's test configurations have them") {
  const LaunchWords found = launch(
      "ENV_VARS:\n  NCCL_ALGO: Ring\nMODEL_ARGS:\n  --num-layers: 24 # of them\n  --bf16: true\n  --swiglu: false\n"
      "  --recompute-modules: \"[mlp core_attn]\"\n  --ckpt-format: 'torch_dist'\n  --save: ${CHECKPOINT}\n  "
      "--mock-data:\n"
      "# no more\nTEST_TYPE: regular\nBEFORE:\n  --num-layers: 3\n");
  CHECK(found.words == Words{"--num-layers", "24", "--bf16", "--recompute-modules", "mlp", "core_attn", "--ckpt-format",
                             "torch_dist", "--save", "${CHECKPOINT}", "--mock-data"});
  CHECK_FALSE(found.command);
  CHECK_THAT(refused("MODEL_ARGS:\n  --num-layers: |\n    24\n"), Contains("train.sh:2") && Contains("several lines"));
}

TEST_CASE("a YAML block is read with the block that it merges, which it comes over") {
  const std::string base =
      "BASE: &BASE\n  # of all\n  --num-layers: 32\n  --bf16: true\n  --hidden-size: 64\nOTHER: &OTHER\n  <<: *BASE\n"
      "  --num-layers: 8\n";
  CHECK(launch(base + "MODEL_ARGS:\n  <<: *OTHER\n  --bf16: false\n  --seq-length: 16\nMODEL_ARGS_2:\n  <<: *BASE\n")
            .words == Words{"--hidden-size", "64", "--num-layers", "8", "--seq-length", "16"});
  for (const char* merge : {"*NONE", "[*BASE, *OTHER]", "*MODEL", "{--num-layers: 2}"}) {
    CHECK_THAT(refused(base + "MODEL_ARGS: &MODEL\n  <<: " + merge + "\n"),
               Contains("train.sh:10: <<: expected *NAME"));
  }
  CHECK_THAT(refused(base + "MODEL_ARGS:\n  <<: *BASE\n  <<: *OTHER\n"), Contains("this is the second"));
}
