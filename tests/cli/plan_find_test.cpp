// Plans before anything is measured, as people ask for them: `plan find`, `plan estimate`, and `evaluate` without
// costs.

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "program.hpp"
#include "scratch.hpp"

namespace {

using nlohmann::json;

const json kLlama = {{"model_type", "llama"},       {"hidden_size", 4096},
                     {"intermediate_size", 14336},  {"num_attention_heads", 32},
                     {"num_hidden_layers", 32},     {"num_key_value_heads", 8},
                     {"vocab_size", 128256},        {"max_position_embeddings", 131072},
                     {"tie_word_embeddings", false}};

struct Files {
  Scratch scratch;
  std::string config = scratch.file("config.json", kLlama.dump());
};

std::vector<std::string> find(const Files& files, const std::vector<std::string>& more) {
  std::vector<std::string> words{"plan", "find", "--hf", files.config};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Exit code 2, no answer, and a message that has these words.
void refuses(const std::vector<std::string>& arguments, const std::vector<std::string>& words) {
  const Outcome outcome = trimtab_program(arguments);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  for (const std::string& word : words) CHECK(outcome.err.find(word) != std::string::npos);
}

}  // namespace

TEST_CASE("plan find answers with a table, a reason and what to paste") {
  const Files files;
  const Outcome outcome = trimtab_program(find(files, {"--gpus", "16xH100"}));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  for (const char* part :
       {"8.03 billion parameters", "Not said, so assumed", "nine of ten in", "Why #1", "rule of thumb",
        "MFU is of 989.4 TFLOP/s", "To paste, for megatron", "--micro-batch-size"}) {
    INFO(part);
    CHECK(outcome.out.find(part) != std::string::npos);
  }
}

TEST_CASE("what plan find answers can be asked again, estimated alike, and evaluated alike") {
  const Files files;
  const std::string plan = files.scratch.path("plan.json");
  const Outcome found = trimtab_program(
      find(files, {"--gpus", "16xH100", "--network", "8x400G", "--keep-recompute", "layer", "--json", "--out", plan}));
  INFO(found.err);
  REQUIRE(found.exit_code == 0);
  const json best = json::parse(found.out)["points"][0]["plans"][0];
  const std::string questions = files.scratch.file("questions", best["question"].dump() + "\n\n{\"gpus\": 1}\n");
  const Outcome estimated = trimtab_program({"plan", "estimate", questions});
  REQUIRE(estimated.exit_code == 0);
  const std::size_t line = estimated.out.find('\n');
  CHECK(json::parse(estimated.out.substr(0, line)) == best["answer"]);
  const json refused = json::parse(estimated.out.substr(line + 1));
  CHECK(refused["error"].get<std::string>().find("questions:3: gpu") != std::string::npos);

  const std::vector<std::string> evaluate{"evaluate", "--hf", files.config, "--gpus", "16xH100", "--network", "8x400G"};
  std::vector<std::string> by_plan = evaluate;
  by_plan.insert(by_plan.end(), {"--plan", plan, "--json"});
  const Outcome evaluated = trimtab_program(by_plan);
  INFO(evaluated.err);
  REQUIRE(evaluated.exit_code == 0);
  CHECK(json::parse(evaluated.out)["answer"] == best["answer"]);

  const json& knobs = best["question"]["plan"];
  std::vector<std::string> by_options = evaluate;
  const auto text = [&](const char* knob) { return knobs[knob].dump(); };
  const std::vector<std::string> levels{"nothing", "optimizer", "gradients", "parameters"};
  const auto level = std::ranges::find(levels, knobs["sharded"].get<std::string>()) - levels.begin();
  const auto layers = static_cast<int>(knobs["recomputed_share"].get<double>() * 32 + 0.5);
  by_options.insert(by_options.end(),
                    {"--tp", text("tp"), "--pp", text("pp"), "--vpp", text("vpp"), "--cp", text("cp"), "--microbatch",
                     text("microbatch"), "--zero", std::to_string(level), "--recompute", "layer", "--recompute-layers",
                     std::to_string(layers), "--global-batch", text("global_batch"), "--json"});
  const Outcome by_hand = trimtab_program(by_options);
  INFO(by_hand.err);
  REQUIRE(by_hand.exit_code == 0);
  CHECK(json::parse(by_hand.out)["answer"]["step_s"] == best["answer"]["step_s"]);
}

TEST_CASE("a measured step sharpens all estimates") {
  const Files files;
  const json plain = json::parse(trimtab_program(find(files, {"--gpus", "8xH100", "--json"})).out);
  json step = {{"step_s", plain["points"][0]["plans"][2]["answer"]["step_s"].get<double>() * 1.2}};
  step["plan"] = plain["points"][0]["plans"][2]["question"]["plan"];
  const std::string measured = files.scratch.file("measured", step.dump() + "\n");
  const Outcome outcome = trimtab_program(find(files, {"--gpus", "8xH100", "--measured", measured, "--json"}));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const json before = plain["points"][0]["plans"][0]["answer"];
  const json after = json::parse(outcome.out)["points"][0]["plans"][0]["answer"];
  CHECK(after["step_s"] > before["step_s"]);
  const auto width = [](const json& answer) {
    return answer["most_s"].get<double>() / answer["least_s"].get<double>();
  };
  CHECK(width(after) < width(before));
  refuses(find(files, {"--gpus", "8xH100", "--measured", files.scratch.file("bad", "{\"step_s\": 1}\n")}),
          {"bad:1", "step_s"});
}

TEST_CASE("Megatron-LM's arguments say the same model") {
  const Files files;
  const std::string script = files.scratch.file(
      "pretrain.sh",
      "torchrun pretrain_gpt.py --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
      "--group-query-attention --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192 --swiglu "
      "--normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type "
      "rope "
      "--vocab-size 128256 --bf16 --hidden-dropout 0 --attention-dropout 0\n");
  const json by_hf = json::parse(trimtab_program(find(files, {"--gpus", "8xH100", "--json", "--name", "m"})).out);
  const Outcome outcome =
      trimtab_program({"plan", "find", "--megatron", script, "--gpus", "8xH100", "--json", "--name", "m"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(json::parse(outcome.out)["points"] == by_hf["points"]);
}

TEST_CASE("several numbers of GPUs are a curve, and the objective chooses of them") {
  const Files files;
  const std::vector<std::string> curve{"--gpus", "32,8,64xH100", "--json", "--price-per-gpu-hour", "2"};
  const auto chosen = [&](const std::string& objective) {
    std::vector<std::string> words = find(files, curve);
    words.insert(words.end(), {"--objective", objective});
    const json answer = json::parse(trimtab_program(words).out);
    CHECK(answer["points"].size() == 3);
    return answer["points"][answer["chosen"].get<std::size_t>()];
  };
  CHECK(chosen("time")["gpus"] == 64);
  const json cheapest = chosen("cost");
  const json all = json::parse(trimtab_program(find(files, curve)).out);
  for (const json& point : all["points"]) {
    CHECK(point["price_of_billion_tokens"] >= cheapest["price_of_billion_tokens"]);
    CHECK(point["watts_from"] == "data sheet");
  }
}

TEST_CASE("the page carries its plans and asks nobody") {
  const Files files;
  const std::string page = files.scratch.path("plans.html");
  REQUIRE(trimtab_program(find(files, {"--gpus", "8xH100", "--name", "</script><b>", "--html", page})).exit_code == 0);
  const std::string text = content_of(page);
  CHECK(text.find("http:") == std::string::npos);
  CHECK(text.find("https:") == std::string::npos);
  CHECK(text.find("<b>&") == std::string::npos);
  CHECK(text.find("&lt;/script&gt;") != std::string::npos);
  const std::string opening = "id=\"data\">";
  const std::size_t begin = text.find(opening) + opening.size();
  const json data = json::parse(text.substr(begin, text.find("</script>", begin) - begin));
  CHECK(data["plans"].size() > 100);
  for (const json& plan : data["plans"]) REQUIRE(plan.size() == data["columns"].size());
}

TEST_CASE("where nothing fits plan find says how near, and what would help") {
  const Files files;
  const Outcome outcome = trimtab_program(find(files, {"--gpus", "1xH100"}));
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out.find("No plan fits") != std::string::npos);
  CHECK(outcome.out.find("of these GPUs") != std::string::npos);
}

TEST_CASE("wrong words are refused with the known ones") {
  const Files files;
  refuses(find(files, {}), {"--gpus", "64xH100"});
  refuses(find(files, {"--gpus", "8xH101"}), {"H101", "H100-SXM5-80GB"});
  refuses(find(files, {"--gpus", "H100"}), {"32,64,128xH100"});
  refuses(find(files, {"--gpus", "8xH100", "--target", "megatorn"}), {"did you mean 'megatron'"});
  refuses(find(files, {"--gpus", "8xA100", "--precision", "fp8"}), {"has no float8"});
  refuses(find(files, {"--gpus", "8xH100", "--global-batch", "1073741824"}), {"--global-batch", "1 to 4194304"});
  refuses(find(files, {"--gpus", "8xV100"}), {"has no bfloat16", "--precision fp16"});
  refuses(find(files, {"--gpus", "8xH100", "--objective", "cost"}), {"--price-per-gpu-hour"});
  refuses(find(files, {"--gpus", "8xH100", "--target", "fsdp2", "--keep-recompute", "attention_core"}),
          {"fsdp2 recomputes nothing, layer"});
  refuses({"plan", "find", "--gpus", "8xH100"}, {"--hf", "--megatron"});
  json experts = kLlama;
  experts["num_local_experts"] = 8;
  refuses({"plan", "find", "--hf", files.scratch.file("moe.json", experts.dump()), "--gpus", "8xH100"},
          {"num_local_experts", "experts"});
  experts["model_type"] = "mixtral";
  experts["num_experts_per_tok"] = 2;
  const std::string mixtral = files.scratch.file("mixtral.json", experts.dump());
  for (const std::vector<std::string>& verb : {std::vector<std::string>{"plan", "find"}, {"evaluate"}}) {
    std::vector<std::string> words = verb;
    words.insert(words.end(), {"--hf", mixtral, "--gpus", "8xH100"});
    refuses(words, {"models with experts are not priced yet: mixtral, 8 experts of which 2 are active"});
  }
  refuses({"evaluate", "--hf", files.config, "--gpus", "8xH100", "--tp", "3"}, {"does not divide the 8 GPUs"});
  refuses({"evaluate", "--hf", files.config, "--gpus", "8xH100", "--costs", "costs.db"}, {"of one kind"});
  refuses({"evaluate", "--model", "model.json"}, {"--cluster is required", "--hf"});
  refuses({"evaluate", "--hf", files.config, "--gpus", "8xH100", "--pp", "4", "--vpp", "4", "--recompute", "layer",
           "--recompute-layers", "8"},
          {"a multiple of 16"});
  refuses(find(files, {"--gpus", "64xH100", "--network", "nanG"}), {"nanG"});
  refuses(find(files, {"--gpus", "64xH100", "--least-chance", "nan"}), {"--least-chance"});
  refuses(find(files, {"--gpus", "16xV100", "--target", "torchtitan", "--precision", "fp16"}), {"torchtitan", "fp16"});
}

TEST_CASE("a plan that leaves GPUs idle says so, found or of one's own") {
  const Files files;
  const Outcome found = trimtab_program(find(files, {"--gpus", "16xH100", "--global-batch", "7"}));
  INFO(found.err);
  REQUIRE(found.exit_code == 0);
  CHECK(found.out.find("GPUs idle") != std::string::npos);
  CHECK(found.out.find("#  GPUs ") != std::string::npos);
  const Outcome own = trimtab_program(
      {"evaluate", "--hf", files.config, "--gpus", "64xH100", "--tp", "2", "--dp", "16", "--zero", "1"});
  INFO(own.err);
  CHECK(own.out.find("It leaves 32 of the 64 GPUs idle") != std::string::npos);
}

TEST_CASE("samples longer than learned positions, and steps in another unit, are refused") {
  const Files files;
  const std::string gpt2 = files.scratch.file("gpt2.json", json({{"model_type", "gpt2"},
                                                                 {"n_embd", 768},
                                                                 {"n_layer", 12},
                                                                 {"n_head", 12},
                                                                 {"n_positions", 1024},
                                                                 {"vocab_size", 50257}})
                                                               .dump());
  refuses({"plan", "find", "--hf", gpt2, "--gpus", "8xH100", "--sequence", "8192"}, {"--sequence 8192", "1024"});
  const std::string slow = files.scratch.file(
      "slow.jsonl", R"({"step_s": 7900, "plan": {"dp": 64, "global_batch": 512, "sharded": "gradients"}})");
  refuses(find(files, {"--gpus", "64xH100", "--measured", slow}), {"step_s", "seconds"});
}
