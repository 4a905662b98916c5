#include "schema/megatron_model.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

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

TEST_CASE("a refusal repeats what was found as text that can be printed") {
  CHECK_THAT(refused("--seq-length '\xff\x1b[2J'"), Catch::Contains("\xef\xbf\xbd\\u001b[2J"));
  CHECK(refused("--normalization " + std::string(100'000, 'x')).size() < 1000);
}
