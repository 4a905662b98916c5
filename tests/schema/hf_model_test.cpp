#include "schema/hf_model.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace trimtab;
using Catch::Contains;

namespace {

struct Published {
  std::string name;
  std::string type;
  int layers, hidden, heads, groups, head_dim, ffn, vocabulary;
  bool tied;
  std::int64_t parameters;
};

// Sizes and parameters as the models are published.
const std::vector<Published> kPublished{
    {"llama-2-7b", "llama", 32, 4096, 32, 32, 0, 11008, 32000, false, 6'738'415'616},
    {"llama-2-13b", "llama", 40, 5120, 40, 40, 0, 13824, 32000, false, 13'015'864'320},
    {"llama-2-70b", "llama", 80, 8192, 64, 8, 0, 28672, 32000, false, 68'976'648'192},
    {"llama-3.1-8b", "llama", 32, 4096, 32, 8, 0, 14336, 128256, false, 8'030'261'248},
    {"llama-3.1-70b", "llama", 80, 8192, 64, 8, 0, 28672, 128256, false, 70'553'706'496},
    {"llama-3.1-405b", "llama", 126, 16384, 128, 8, 0, 53248, 128256, false, 405'853'388'800},
    {"llama-3.2-1b", "llama", 16, 2048, 32, 8, 64, 8192, 128256, true, 1'235'814'400},
    {"llama-3.2-3b", "llama", 28, 3072, 24, 8, 128, 8192, 128256, true, 3'212'749'824},
    {"tinyllama", "llama", 22, 2048, 32, 4, 0, 5632, 32000, false, 1'100'048'384},
    {"mistral-7b-v0.1", "mistral", 32, 4096, 32, 8, 0, 14336, 32000, false, 7'241'732'096},
    {"mistral-7b-v0.3", "mistral", 32, 4096, 32, 8, 0, 14336, 32768, false, 7'248'023'552},
    {"mistral-nemo", "mistral", 40, 5120, 32, 8, 128, 14336, 131072, false, 12'247'782'400},
    {"qwen2.5-0.5b", "qwen2", 24, 896, 14, 2, 0, 4864, 151936, true, 494'032'768},
    {"qwen2.5-1.5b", "qwen2", 28, 1536, 12, 2, 0, 8960, 151936, true, 1'543'714'304},
    {"qwen2.5-3b", "qwen2", 36, 2048, 16, 2, 0, 11008, 151936, true, 3'085'938'688},
    {"qwen2.5-7b", "qwen2", 28, 3584, 28, 4, 0, 18944, 152064, false, 7'615'616'512},
    {"qwen2.5-14b", "qwen2", 48, 5120, 40, 8, 0, 13824, 152064, false, 14'770'033'664},
    {"qwen2.5-32b", "qwen2", 64, 5120, 40, 8, 0, 27648, 152064, false, 32'763'876'352},
    {"qwen2.5-72b", "qwen2", 80, 8192, 64, 8, 0, 29568, 152064, false, 72'706'203'648},
    {"qwen3-0.6b", "qwen3", 28, 1024, 16, 8, 128, 3072, 151936, true, 596'049'920},
    {"qwen3-1.7b", "qwen3", 28, 2048, 16, 8, 128, 6144, 151936, true, 1'720'574'976},
    {"qwen3-4b", "qwen3", 36, 2560, 32, 8, 128, 9728, 151936, true, 4'022'468'096},
    {"qwen3-8b", "qwen3", 36, 4096, 32, 8, 128, 12288, 151936, false, 8'190'735'360},
    {"qwen3-14b", "qwen3", 40, 5120, 40, 8, 128, 17408, 151936, false, 14'768'307'200},
    {"qwen3-32b", "qwen3", 64, 5120, 64, 8, 128, 25600, 151936, false, 32'762'123'264},
    {"gemma-2b", "gemma", 18, 2048, 8, 1, 256, 16384, 256000, true, 2'506'172'416},
    {"gemma-7b", "gemma", 28, 3072, 16, 16, 256, 24576, 256000, true, 8'537'680'896},
    {"gemma-2-2b", "gemma2", 26, 2304, 8, 4, 256, 9216, 256000, true, 2'614'341'888},
    {"gemma-2-9b", "gemma2", 42, 3584, 16, 8, 256, 14336, 256000, true, 9'241'705'984},
    {"gemma-2-27b", "gemma2", 46, 4608, 32, 16, 128, 36864, 256000, true, 27'227'128'320},
    {"phi-1.5", "phi", 24, 2048, 32, 32, 0, 8192, 51200, false, 1'418'270'720},
    {"phi-2", "phi", 32, 2560, 32, 32, 0, 10240, 51200, false, 2'779'683'840},
    {"phi-3-mini", "phi3", 32, 3072, 32, 32, 0, 8192, 32064, false, 3'821'079'552},
    {"phi-3-medium", "phi3", 40, 5120, 40, 10, 0, 17920, 32064, false, 13'960'238'080},
    {"gpt-neox-20b", "gpt_neox", 44, 6144, 64, 64, 0, 24576, 50432, false, 20'554'567'680},
    {"pythia-410m", "gpt_neox", 24, 1024, 16, 16, 0, 4096, 50304, false, 405'334'016},
    {"pythia-6.9b", "gpt_neox", 32, 4096, 32, 32, 0, 16384, 50432, false, 6'857'302'016},
    {"gpt2", "gpt2", 12, 768, 12, 12, 0, 3072, 50257, true, 124'439'808},
    {"gpt2-medium", "gpt2", 24, 1024, 16, 16, 0, 4096, 50257, true, 354'823'168},
    {"gpt2-large", "gpt2", 36, 1280, 20, 20, 0, 5120, 50257, true, 774'030'080},
    {"gpt2-xl", "gpt2", 48, 1600, 25, 25, 0, 6400, 50257, true, 1'557'611'200},
};

std::string config_of(const Published& one) {
  const bool gpt2 = one.type == "gpt2";
  const auto number = [](const char* name, int value) {
    return std::string(", \"") + name + "\": " + std::to_string(value);
  };
  std::string text = "{\"model_type\": \"" + one.type + "\"";
  text += number(gpt2 ? "n_layer" : "num_hidden_layers", one.layers);
  text += number(gpt2 ? "n_embd" : "hidden_size", one.hidden);
  text += number(gpt2 ? "n_head" : "num_attention_heads", one.heads);
  text += number("vocab_size", one.vocabulary);
  text += gpt2 ? number("n_positions", 1024) + ", \"n_inner\": null" : number("intermediate_size", one.ffn);
  if (one.groups != one.heads) text += number("num_key_value_heads", one.groups);
  if (one.head_dim > 0) text += number("head_dim", one.head_dim);
  return text + ", \"tie_word_embeddings\": " + (one.tied ? "true" : "false") + "}";
}

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
  for (const Published& one : kPublished) {
    INFO(one.name);
    const auto model = read(config_of(one));
    REQUIRE((model.ok() ? "" : model.error().message) == "");
    CHECK(parameters(*model) == one.parameters);
    CHECK(model->operators.size() == 2 * static_cast<std::size_t>(one.layers) + 2);
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
  const std::string llama = config_of(kPublished.front());
  const auto with = [&](const std::string& more) { return llama.substr(0, llama.size() - 1) + ", " + more + "}"; };
  CHECK_THAT(refused(with("\"attention_bias\": true")), Contains("attention_bias"));
  CHECK_THAT(refused(with("\"num_key_value_heads\": 5")), Contains("num_key_value_heads"));
  CHECK_THAT(refused(with("\"head_dim\": \"wide\"")), Contains("head_dim") && Contains("wide"));
  CHECK(read(with("\"attention_bias\": false")).ok());
}
