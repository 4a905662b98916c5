#include "schema/megatron_model.hpp"
#include "schema/launch_script.hpp"
#include "schema/models/parameters.hpp"
#include "schema/plan_import.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>

using namespace trimtab;

namespace {

// A small GPT whose arguments are then said again: the last one counts.
Result<MegatronModel> model_with(const std::string& further) {
  const auto words = shell_words(
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 "
      "--vocab-size 100 --global-batch-size 8 " +
          further,
      "test");
  return model_from_megatron(words.value(), "gpt");
}

std::string refused(const std::string& further) {
  const auto model = model_with(further);
  INFO(further);
  REQUIRE_FALSE(model.ok());
  return model.error().message;
}

}  // namespace

TEST_CASE("a GPT is counted as Megatron-LM builds it") {
  const Model model = model_with("").value().model;
  REQUIRE(model.operators.size() == 6);
  const Operator& attention = model.operators[1];
  // Two vectors of the norm, queries, keys and values, the product behind them, biases: four bytes each.
  CHECK(attention.parameter_bytes == 4 * (2 * 64 + 64 * 192 + 192 + 64 * 64 + 64));
  CHECK(attention.forward_flops == 2 * 16 * 64 * (192 + 64) + 4 * 16 * 16 * 64);
  CHECK(attention.key_value_bytes == 4 * 16 * 2 * 64);
  CHECK(attention.tensor_all_reduces == 1);
  const Operator& head = model.operators[5];
  CHECK(head.name == "head");
  CHECK(head.layer == 1);
  CHECK(head.parameter_bytes == 4 * (2 * 64 + 128 * 64));
  CHECK(model.tied_parameters.at(0).bytes == 4 * 128 * 64);
}

namespace {

// Of a layer, for one token.
std::int64_t stored_of_layer(const std::string& arguments, std::int64_t sequence, bool replicated = false) {
  const Model model = model_from_megatron(shell_words(arguments, "test").value(), "gpt").value().model;
  Bytes bytes = 0;
  for (const Operator& op : {model.operators[1], model.operators[2]}) {
    bytes += replicated ? op.replicated_activation_bytes.value() : op.activation_bytes;
  }
  CHECK(bytes % sequence == 0);
  return bytes / sequence;
}

}  // namespace

// Korthikanti et al. 2022, equation 1, without the scores of attention; equation 2 tells what ranks hold whole.
TEST_CASE("a layer stores 34 s b h, less by what dropout and the size of its mlp say") {
  const std::string gpt =
      "--num-layers 2 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 --max-position-embeddings 512 "
      "--vocab-size 100 --global-batch-size 8 --bf16 ";
  CHECK(stored_of_layer(gpt, 512) == 34 * 1024);
  CHECK(stored_of_layer(gpt, 512, true) == 10 * 1024);
  CHECK(stored_of_layer(gpt + "--ffn-hidden-size 2048", 512) == (18 + 4 * 2) * 1024);
  // Two masks of a byte each.
  CHECK(stored_of_layer(gpt + "--hidden-dropout 0.0", 512) == 32 * 1024);
  CHECK(stored_of_layer(gpt + "--hidden-dropout 0", 512, true) == 8 * 1024);
  // Fused attention draws its masks again.
  CHECK(stored_of_layer(gpt + "--attention-dropout 0.0", 512) == 34 * 1024);
  // Else five bytes a score: the softmax, the mask, what dropout leaves; without dropout the softmax alone.
  const std::string whole = gpt + "--attention-backend unfused ";
  CHECK(stored_of_layer(whole, 512) == 34 * 1024 + 5 * 16 * 512);
  CHECK(stored_of_layer(whole + "--attention-dropout 0.0", 512) == 34 * 1024 + 2 * 16 * 512);
  CHECK(stored_of_layer(gpt + "--transformer-impl local", 512) == 34 * 1024 + 5 * 16 * 512);
  CHECK(stored_of_layer(gpt + "--transformer-impl local --use-flash-attn", 512) == 34 * 1024);
  CHECK(stored_of_layer(whole, 512, true) == 10 * 1024);
}

TEST_CASE("a token of Llama-3-8B stores 139,264 bytes a layer") {
  const std::string llama =
      "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
      "--num-query-groups 8 --seq-length 8192 --vocab-size 128256 --global-batch-size 64 --swiglu --normalization "
      "RMSNorm "
      "--position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights --bf16 "
      "--hidden-dropout 0.0 --attention-dropout 0.0";
  CHECK(stored_of_layer(llama, 8192) == 139264);
  CHECK(stored_of_layer(llama, 8192, true) == 8 * 4096);
}

TEST_CASE("embedding and head store their outputs, the mask and the logits") {
  const Model model = model_with("--bf16").value().model;
  CHECK(model.operators.front().activation_bytes == 16 * 64 * 3);
  CHECK(model.operators.front().replicated_activation_bytes == 16 * 64 * 3);
  CHECK(model.operators.back().activation_bytes == 16 * 64 * 2 + 4 * 16 * 128);
  CHECK(model.operators.back().replicated_activation_bytes == 16 * 64 * 2);
  CHECK(model_with("--bf16 --hidden-dropout 0.0").value().model.operators.front().activation_bytes == 16 * 64 * 2);
  CHECK(model.frees_sent_outputs);
  CHECK(model.recompute_unit == RecomputeUnit::kLayer);
}

TEST_CASE("gradients and optimizer states are of the types that the arguments say") {
  const auto states = [](const std::string& arguments) {
    const Model model = model_with(arguments).value().model;
    return std::pair(model.gradient_bytes_per_parameter_byte, model.optimizer_bytes_per_parameter_byte);
  };
  CHECK(states("") == std::pair(1.0, 2.0));
  CHECK(states("--bf16") == std::pair(2.0, 6.0));
  CHECK(states("--fp16") == std::pair(1.0, 6.0));
  CHECK(states("--fp16 --accumulate-allreduce-grads-in-fp32") == std::pair(2.0, 6.0));
  CHECK(states("--bf16 --grad-reduce-in-bf16") == std::pair(1.0, 6.0));
  const std::string aware = "--bf16 --use-precision-aware-optimizer ";
  CHECK(states(aware) == std::pair(2.0, 6.0));
  CHECK(states(aware + "--main-grads-dtype bf16") == std::pair(1.0, 6.0));
  CHECK(states(aware + "--main-params-dtype fp16 --exp-avg-dtype bf16 --exp-avg-sq-dtype fp8") == std::pair(2.0, 2.5));
  CHECK(states("--optimizer sgd") == std::pair(1.0, 1.0));
  CHECK(states("--bf16 --optimizer sgd") == std::pair(2.0, 4.0));
  CHECK(states("--bf16 --optimizer sgd --sgd-momentum 0.0") == std::pair(2.0, 2.0));
  CHECK_THAT(refused("--bf16 --exp-avg-dtype bf16"), Catch::Contains("needs --use-precision-aware-optimizer"));
  CHECK(states("--bf16 --optimizer lion") == std::pair(2.0, 4.0));
  CHECK(states("--bf16 --optimizer adaptive_muon") == std::pair(2.0, 6.0));
  CHECK_THAT(refused("--optimizer soap"), Catch::Contains("--optimizer: expected one of adam, sgd, lion, muon"));
  CHECK_THAT(refused("--hidden-dropout 1.5"), Catch::Contains("--hidden-dropout: expected one number"));
}

// megatron/core/optimizer/emerging_optimizers.py: matrices of layers have one momentum, the rest Adam's or Lion's
// states.
TEST_CASE("Muon keeps one momentum of the layers' matrices, and what else there is in both ends") {
  const double head = 2 * 64 + 128 * 64;  // a norm, and the table that is the embedding's, too
  const double ends = head + 16 * 64;     // positions
  const auto factor = [&](const std::string& further) {
    return model_with("--bf16 --optimizer muon " + further).value().model.optimizer_bytes_per_parameter_byte;
  };
  const double layers = 2 * (12 * 64 * 64 + 13 * 64);
  CHECK(factor("") == Approx((4 * layers + 6 * ends) / (layers + ends)));
  CHECK(factor("--muon-scalar-optimizer lion --muon-momentum 0.9") == 4);
  const double untied = ends + 128 * 64;
  CHECK(factor("--untie-embeddings-and-output-weights") == Approx((4 * layers + 6 * untied) / (layers + untied)));
  CHECK(model_with("--optimizer muon").value().how_it_runs == std::vector<std::string>{"--optimizer"});
}

TEST_CASE("sizes whose products are beyond 64 bits are refused with the arguments that make them") {
  const std::string most = "2147483647";
  CHECK_THAT(refused("--seq-length " + most), Catch::Contains("--seq-length 2147483647") &&
                                                  Catch::Contains("--hidden-size 64") &&
                                                  Catch::Contains("correct the one that is mistyped"));
  CHECK_THAT(refused("--kv-channels " + most + " --num-attention-heads " + most),
             Catch::Contains("--num-attention-heads 2147483647, --kv-channels 2147483647"));
  CHECK_THAT(refused("--hidden-size " + most + " --kv-channels 1 --ffn-hidden-size " + most),
             Catch::Contains("--hidden-size 2147483647"));
  CHECK_THAT(refused("--ffn-hidden-size " + most + " --hidden-size 1073741824 --kv-channels 1"),
             Catch::Contains("--ffn-hidden-size 2147483647"));
  CHECK_THAT(refused("--make-vocab-size-divisible-by " + most + " --tensor-model-parallel-size " + most),
             Catch::Contains("--vocab-size (padded) 4611686014132420609"));
}

TEST_CASE("a model whose layers together are beyond 64 bits is refused, each of them fits") {
  const std::string large = "--hidden-size 65536 --seq-length 1048576 --max-position-embeddings 1048576 ";
  CHECK(model_with(large + "--num-layers 4").ok());
  CHECK_THAT(refused(large + "--num-layers 100000"),
             Catch::Contains("--num-layers 100000, --hidden-size 65536, --seq-length 1048576"));
}

TEST_CASE("a gated unit of which Megatron-LM's rounding leaves nothing needs its own size") {
  CHECK_THAT(refused("--hidden-size 16 --swiglu"), Catch::Contains("--ffn-hidden-size: needed with --swiglu"));
  CHECK(model_with("--hidden-size 16 --swiglu --ffn-hidden-size 24").ok());
}

TEST_CASE("a program that by its name trains another kind of model is refused") {
  const auto model = [](const std::string& program) {
    const std::string options =
        "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 16 "
        "--max-position-embeddings 16 --vocab-size 100 --global-batch-size 8";
    return model_from_megatron(shell_words("torchrun " + program + " " + options, "test").value(), "gpt");
  };
  for (const std::string program : {"pretrain_bert.py", "/opt/megatron/pretrain_t5.py", "examples/mimo/train.py"}) {
    INFO(program);
    REQUIRE_FALSE(model(program).ok());
    CHECK(model(program).error().message.starts_with(program + ": trains no decoder-only GPT"));
  }
  for (const std::string program : {"/home/bert/pretrain_gpt.py", "train.py", "gpt/train.py", "albertine.py"}) {
    INFO(program);
    CHECK(model(program).ok());
  }
  CHECK(refused("--model-provider llava_vlm").starts_with("--model-provider: a model that its program makes"));
}

TEST_CASE("an option that nobody knows is refused by name, unless its user says that it changes nothing") {
  CHECK(refused("--my-mixture 0.3 --my-window 128")
            .starts_with("--my-mixture, --my-window: not known to leave the model, its memory and its time"));
  CHECK_THAT(refused("--my-mixture 0.3"), Catch::EndsWith("--: --neutral my-mixture"));
  const auto words = shell_words(
      "torchrun --nproc-per-node 8 --rdzv-backend c10d pretrain_gpt.py --num-layers 2 --hidden-size 64 "
      "--num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 --vocab-size 100 --global-batch-size 8 "
      "--my-mixture 0.3 --lr 1e-4 --save /tmp/x --tensorboard-dir /tmp/y --moe-grouped-gemm --tp-comm-overlap",
      "test");
  CHECK_FALSE(model_from_megatron(words.value(), "gpt").ok());
  const auto model = model_from_megatron(words.value(), "gpt", {"--my-mixture"});
  REQUIRE(model.ok());
  CHECK(model->how_it_runs == std::vector<std::string>{"--tp-comm-overlap"});
  CHECK(model_from_megatron(words.value(), "gpt", {"my-mixture"}).ok());
}

TEST_CASE("an option is refused that changes the model, memory or time in a way that is not counted") {
  for (const std::string option :
       {"--use-checkpoint-args", "--window-size 127,0", "--export-kd-teacher-load /t", "--hybrid-layer-pattern M*-",
        "--fine-grained-activation-offloading", "--experimental-attention-variant dsa", "--spec a b"}) {
    const std::string name = option.substr(0, option.find(' '));
    CHECK_THAT(refused(option),
               Catch::StartsWith(name + ": ") && Catch::Contains(" is not counted from arguments alone"));
  }
  // Its user says that it changes nothing.
  const auto words = shell_words(
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 "
      "--vocab-size 100 --global-batch-size 8 --spec local",
      "test");
  CHECK(model_from_megatron(words.value(), "gpt", {"spec"}).ok());
}

TEST_CASE("what only generates text, and names of a checkpoint, leave the model as it is") {
  const auto plain = to_json(model_with("").value().model);
  CHECK(to_json(model_with("--out-seq-length 20 --top_p 0.9 --temperature 1.0 --num-samples $1 --genfile out --task "
                           "MSDP-EVAL-F1 --guess-file g --answer-file a --prompts x --num-tokens-to-generate 9 "
                           "--export-te-mcore-model --tokenizer-hf-include-special-tokens")
                    .value()
                    .model) == plain);
}

TEST_CASE("a softmax with learnt numbers has one a head, and norms without weights have none") {
  const auto attention = [](const std::string& further) {
    return model_with(further).value().model.operators[1].parameter_bytes / 4;
  };
  CHECK(attention("--softmax-type learnable") == attention("") + 4);
  CHECK(attention("--softmax-type off-by-one") == attention(""));
  CHECK(attention("--qk-layernorm") == attention("") + 4 * 16);
  CHECK(attention("--qk-layernorm --export-qk-l2-norm") == attention(""));
  CHECK(attention("--qk-layernorm --qk-l2-norm") == attention(""));
}

namespace {

// Kinds of the operators by their first letters, and parameters.
std::pair<std::string, double> layers_of(const std::string& further) {
  const Model model = model_with(further).value().model;
  std::string kinds;
  for (const Operator& op : model.operators) kinds += op.kind.front();
  return {kinds, parameter_bytes(model).all / 4};
}

}  // namespace

TEST_CASE("a GPT with experts is read whole, and its plans are refused by name", "[experts]") {
  const std::string eight = "--num-experts 8 --swiglu --ffn-hidden-size 96 --disable-bias-linear ";
  const auto plain = layers_of(eight);
  CHECK(plain.first == "eaeaeh");
  // In place of an mlp: a router of 8 rows and eight of them.
  const double mlp = 3 * 64 * 96;
  const double without = layers_of("--swiglu --ffn-hidden-size 96 --disable-bias-linear").second;
  CHECK(plain.second == without + 2 * (8 * 64 + 7 * mlp));
  CHECK(layers_of(eight + "--moe-layer-freq 2").first == "eaeamh");
  CHECK(layers_of(eight + "--moe-layer-freq '([0]*1+[1])'").first == "eamaeh");
  CHECK(layers_of(eight + "--moe-ffn-hidden-size 32").second == without + 2 * (8 * 64 - mlp + 8 * mlp / 3));
  const double shared = layers_of(eight + "--moe-shared-expert-intermediate-size 192 --moe-shared-expert-gate").second;
  CHECK(shared == plain.second + 2 * (2 * mlp + 64));
  // With biases: of the router and of each expert.
  const double biased = layers_of("--num-experts 8 --moe-router-enable-expert-bias").second;
  CHECK(biased == layers_of("").second + 2 * (8 * 64 + 8 + 8 + 7 * (2 * 64 * 256 + 256 + 64)));
  const Model model = model_with(eight + "--moe-router-topk 3").value().model;
  CHECK_THAT(check_priced(model).error().message, Catch::Contains("gpt, 8 experts of which 3 are active"));
  const auto plan =
      plan_from_megatron(shell_words("--micro-batch-size 1 --global-batch-size 8", "test").value(), model, 8);
  REQUIRE_FALSE(plan.ok());
  CHECK_THAT(plan.error().message, Catch::Contains("models with experts are not priced yet"));
}

TEST_CASE("latent attention is counted as Megatron-LM builds it", "[experts]") {
  const std::string latent =
      "--multi-latent-attention --disable-bias-linear --normalization RMSNorm --kv-lora-rank 16 --qk-head-dim 8 "
      "--qk-pos-emb-head-dim 4 --v-head-dim 8 ";
  const auto attention = [](const std::string& further) {
    return model_with(further).value().model.operators[1].parameter_bytes / 4;
  };
  const std::int64_t behind = 64 * (16 + 4) + 16 * 4 * (8 + 8) + 4 * 8 * 64 + 64;  // and the norm before
  CHECK(attention(latent) == 64 * 4 * (8 + 4) + behind);
  CHECK(attention(latent + "--qk-layernorm") == 64 * 4 * (8 + 4) + behind + 16);
  CHECK(attention(latent + "--qk-layernorm --q-lora-rank 24") == 64 * 24 + 24 + 24 * 4 * (8 + 4) + behind + 16);
}

TEST_CASE("what --moe-layer-freq cannot mean is refused", "[experts]") {
  for (const std::string pattern : {"0", "-1", "[1]", "[1,1,1]", "[1,2]", "([1]+[0]", "[1]*2)", "[1]*99999999999",
                                    "[1,", "print(1)", "'[1]+'", "''"}) {
    CHECK_THAT(refused("--num-experts 4 --moe-layer-freq " + pattern), Catch::Contains("--moe-layer-freq: expected"));
  }
  CHECK(model_with("--num-experts 4 --moe-layer-freq '( [1] + [0] ) * 1'").ok());
  CHECK_THAT(refused("--num-experts 4 --moe-router-topk 5"), Catch::Contains("--moe-router-topk: expected at most"));
  CHECK_THAT(refused("--num-experts 4 --moe-latent-size 8"), Catch::Contains("--moe-latent-size: a model whose"));
}

TEST_CASE("costs of one recipe of fp8 are no other's") {
  const auto keys = [](const std::string& further) {
    const Model model = model_with("--bf16 " + further).value().model;
    return std::vector<std::string>{model.operators[0].cost_key, model.operators[1].cost_key,
                                    model.operators[2].cost_key};
  };
  const auto plain = keys("");
  const auto hybrid = keys("--fp8-format hybrid --fp8-margin 0");
  CHECK(hybrid[0] == plain[0]);
  CHECK(hybrid[1] == plain[1] + "-fp8-hybrid-delayed");
  CHECK(hybrid[2] == plain[2] + "-fp8-hybrid-delayed");
  CHECK(keys("--fp8-format e4m3 --fp8-recipe mxfp8")[2] == plain[2] + "-fp8-e4m3-mxfp8");
  CHECK(keys("--fp4-format e2m1")[1] == plain[1] + "-fp4-e2m1-nvfp4");
}

TEST_CASE("a vocabulary that is said with its padding is taken as it is") {
  const auto words = shell_words(
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 "
      "--padded-vocab-size 101 --global-batch-size 8",
      "test");
  const auto model = model_from_megatron(words.value(), "gpt");
  REQUIRE(model.ok());
  CHECK(model->model.operators.back().parameter_bytes == 4 * (2 * 64 + 101 * 64));
}

TEST_CASE("a refusal repeats what was found as text that can be printed") {
  CHECK_THAT(refused("--seq-length '\xff\x1b[2J'"), Catch::Contains("\xef\xbf\xbd\\u001b[2J"));
  CHECK(refused("--normalization " + std::string(100'000, 'x')).size() < 1000);
  CHECK(refused("--\xff\x1b[2J 1").starts_with("--\xef\xbf\xbd\\u001b[2J: not known"));
  std::string many = "--" + std::string(100'000, 'x');
  for (int i = 0; i < 1000; ++i) many += " --unknown" + std::to_string(i);
  CHECK(refused(many).size() < 2000);
}
