#include "schema/hf_model.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

using namespace trimtab;
using Catch::Contains;
using nlohmann::json;

namespace {

// Configurations and parameters as the models are published. bench/published/models.py reads the same file.
json published_models() {
  std::ifstream file(TRIMTAB_SOURCE_DIR "/tests/schema/published_models.json");
  return json::parse(file);
}

const char* const kLlama =
    R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
        "vocab_size": 32000, "intermediate_size": 11008, "tie_word_embeddings": false})";

Result<Model> read(const std::string& config) {
  return model_from_hf(config, "config.json", {2048, 64}, "model");
}

std::string refused(const std::string& config) {
  const auto model = read(config);
  INFO(config);
  REQUIRE_FALSE(model.ok());
  return model.error().message;
}

std::int64_t parameters(const Model& model) {
  std::int64_t bytes = 0;
  for (const Operator& op : model.operators) bytes += op.parameter_bytes;
  for (const TiedParameters& tied : model.tied_parameters) bytes -= tied.bytes;
  return bytes / 2;
}

}  // namespace

TEST_CASE("published models have the parameters that are published") {
  const json published = published_models();
  REQUIRE(published.size() >= 30);
  for (const json& one : published) {
    const json& config = one["config"];
    INFO(one["name"]);
    const auto model = read(config.dump());
    REQUIRE((model.ok() ? "" : model.error().message) == "");
    CHECK(parameters(*model) == one["parameters"]);
    const std::size_t layers = config[config["model_type"] == "gpt2" ? "n_layer" : "num_hidden_layers"];
    CHECK(model->operators.size() == 2 * layers + 2);
    CHECK(model->global_batch == 64);
    CHECK(parse_model(to_json(*model), "model.json").ok());
  }
}

TEST_CASE("a configuration that would be counted wrong is refused by name") {
  CHECK_THAT(refused("{\"model_type\": \"mixtral\", \"num_local_experts\": 8}"),
             Contains("num_local_experts") && Contains("experts"));
  CHECK_THAT(refused("{\"model_type\": \"t5\"}"), Contains("model_type") && Contains("llama") && Contains("\"t5\""));
  CHECK_THAT(refused("{\"model_type\": \"llama\"}"), Contains("num_hidden_layers") && Contains("found nothing"));
  CHECK_THAT(refused("[1]"), Contains("JSON object"));
  const std::string llama = kLlama;
  const auto with = [&](const std::string& more) { return llama.substr(0, llama.size() - 1) + ", " + more + "}"; };
  CHECK_THAT(refused(with("\"attention_bias\": true")), Contains("attention_bias"));
  CHECK_THAT(refused(with("\"num_key_value_heads\": 5")), Contains("num_key_value_heads"));
  CHECK_THAT(refused(with("\"head_dim\": \"wide\"")), Contains("head_dim") && Contains("wide"));
  CHECK(read(with("\"attention_bias\": false")).ok());
  for (const char* name : {"num_extra_experts", "q_lora_rank", "qk_nope_head_dim", "quantization_config"}) {
    const std::string member = "\"" + std::string(name) + "\": ";
    CHECK_THAT(refused(with(member + "2")), Contains(name) && Contains("not counted"));
    CHECK(read(with(member + "null")).ok());
  }
}

TEST_CASE("what a configuration says beyond what is counted is named, unless it is known to change nothing") {
  for (const json& one : published_models()) {
    INFO(one["name"]);
    CHECK(hf_members_not_counted(one["config"].dump()).empty());
  }
  CHECK(hf_members_not_counted(
            R"({"model_type": "llama", "frobnicate": false, "rope_theta": 1e4, "sliding_window": 8})") ==
        std::vector<std::string>{"frobnicate", "sliding_window"});
  CHECK(hf_members_not_counted(R"({"use_sliding_window": false, "sliding_window": 8, "odd": null})").empty());
  CHECK(hf_members_not_counted("[").empty());
}
