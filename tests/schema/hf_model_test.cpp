#include "schema/hf_model.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "schema/models/parameters.hpp"

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

const char* const kMixtral =
    R"({"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 32000, "intermediate_size": 14336, "num_local_experts": 8,
        "num_experts_per_tok": 2, "tie_word_embeddings": false})";

Result<Model> read(const std::string& config) {
  return model_from_hf(config, "config.json", {2048, 64}, "model");
}

std::string refused(const std::string& config) {
  const auto model = read(config);
  INFO(config);
  REQUIRE_FALSE(model.ok());
  return model.error().message;
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
    CHECK(parameter_bytes(*model).all == 2 * one["parameters"].get<double>());
    CHECK(parameter_bytes(*model).active == 2 * one.value("active", one["parameters"].get<double>()));
    const std::size_t layers = config[config["model_type"] == "gpt2" ? "n_layer" : "num_hidden_layers"];
    CHECK(model->operators.size() == 2 * layers + 2);
    CHECK(model->global_batch == 64);
    const auto again = parse_whole_model(to_json(*model), "model.json");
    REQUIRE(again.ok());
    CHECK(to_json(*again) == to_json(*model));
    CHECK(check_priced(*again).ok() == !one.contains("active"));
  }
}

TEST_CASE("a model with experts is read whole, and plans of it are refused by name", "[experts]") {
  const auto model = model_from_hf(kMixtral, "config.json", {2048, 64}, "Mixtral");
  REQUIRE(model.ok());
  CHECK(experts_words(*model) ==
        "32 layers, 32 of them with 8 experts of which 2 are active, 46702792704 parameters, 12879925248 active");
  const Operator& experts = model->operators[2];
  CHECK(experts.kind == "experts");
  CHECK(experts.shape.at("expert_parameter_bytes") == 2 * 3 * 4096 * 14336);
  // A router, a norm and eight experts. A token passes the router and two of them.
  CHECK(experts.parameter_bytes == 2 * (8 * 4096 + 4096) + 8 * experts.shape.at("expert_parameter_bytes"));
  CHECK(experts.forward_flops == 2 * 2048 * (8 * 4096 + 2 * std::int64_t{3} * 4096 * 14336));
  const std::string wanted =
      "models with experts are not priced yet: Mixtral, 8 experts of which 2 are active, 46.7B parameters, 12.9B "
      "active";
  CHECK(check_priced(*model).error().message == wanted);
  CHECK(parse_model(to_json(*model), "model.json").error().message == "model.json: " + wanted);
}

TEST_CASE("layers without experts have an mlp, and what published weights have beside the model is named",
          "[experts]") {
  const json published = published_models();
  const auto named = [&](const char* name) {
    const auto found =
        std::find_if(published.begin(), published.end(), [&](const json& one) { return one["name"] == name; });
    return (*found)["config"];
  };
  json deepseek = named("deepseek-ai/DeepSeek-V3");
  const auto kinds = [](const Model& model) {
    std::string text;
    for (const Operator& op : model.operators) text += op.kind.front();
    return text;
  };
  CHECK(kinds(read(deepseek.dump()).value()).starts_with("eamamamaeae"));
  deepseek["quantization_config"] = {{"quant_method", "fp8"}};
  deepseek["num_nextn_predict_layers"] = 1;
  CHECK(parameter_bytes(read(deepseek.dump()).value()).all == 2 * 671'026'419'200.0);
  CHECK(hf_members_not_counted(deepseek.dump()) ==
        std::vector<std::string>{"num_nextn_predict_layers", "quantization_config"});
  deepseek["first_k_dense_replace"] = 61;
  CHECK(check_priced(read(deepseek.dump()).value()).ok());
  deepseek["quantization_config"] = {{"quant_method", "gptq"}};
  CHECK_THAT(refused(deepseek.dump()), Contains("quantization_config"));
  json qwen = named("Qwen/Qwen3-30B-A3B");
  qwen["decoder_sparse_step"] = 2;
  qwen["mlp_only_layers"] = {3};
  CHECK(kinds(read(qwen.dump()).value()).starts_with("eamaeamamamae"));
}

TEST_CASE("a configuration that would be counted wrong is refused by name") {
  CHECK_THAT(refused("{\"model_type\": \"llama\", \"num_local_experts\": 8}"),
             Contains("num_local_experts") && Contains("experts"));
  json mixtral = json::parse(kMixtral);
  mixtral["num_experts_per_tok"] = 9;
  CHECK_THAT(refused(mixtral.dump()), Contains("num_experts_per_tok") && Contains("at most the 8"));
  mixtral.erase("num_local_experts");
  CHECK_THAT(refused(mixtral.dump()), Contains("num_local_experts: expected a positive integer"));
  mixtral["num_extra_experts"] = 2;
  CHECK_THAT(refused(mixtral.dump()), Contains("num_extra_experts") && Contains("not counted"));
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
