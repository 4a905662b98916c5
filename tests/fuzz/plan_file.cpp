// What `trimtab plan import FILE` reads: configurations of DeepSpeed, Galvatron, torchtitan, transformers, accelerate,
// Lightning, GPT-NeoX and trimtab.parallel. What is accepted is a plan that is exported to the same framework's words,
// where that is a target, and read back as the same plan.

#include "base/check.hpp"
#include "schema/plan_import.hpp"
#include "schema/target.hpp"
#include "target.hpp"

using namespace trimtab;

namespace {

constexpr std::int32_t kRanks = 8;

Model small_model() {
  Model model;
  model.name = "model";
  model.dtype = "bfloat16";
  for (std::int32_t i = 0; i < 6; ++i) {
    const bool layer = i > 0 && i < 5;
    const std::string kind = layer ? "decoder_layer" : i == 0 ? "embedding" : "head";
    Operator op;
    op.name = kind + std::to_string(i);
    op.kind = op.cost_key = kind;
    op.layer = layer ? i - 1 : 0;
    op.shape = {{"sequence", 64}, {"hidden", 32}};
    model.operators.push_back(op);
  }
  return model;
}

const Model kModel = small_model();

// The target that says it: torchtitan's releases are two, and frameworks above DeepSpeed have one for it.
std::string target_of(std::string_view format, const Plan& plan) {
  const std::string name(format == "parallel" ? "ddp" : format);
  if (export_plan(plan, kModel, name).ok()) return name;
  if (format == "parallel") return "fsdp";
  return name + (name == "torchtitan" ? "-0.2" : "-deepspeed");
}

// What a file leaves to the script.
std::vector<std::string> batch_of(std::string_view format) {
  if (format == "accelerate") return {"--per_device_train_batch_size", "2"};
  if (format == "lightning") return {"--data.batch_size", "2"};
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  for (const std::string_view format : plan_formats()) {
    const PlanFile file{text, "file", std::string(format), batch_of(format), kRanks};
    const auto found = plan_from_file(file, kModel);
    if (!fuzz::judge(found)) continue;
    if (format == "neox") {
      const auto read = parse_plan(to_json(found->plan), "plan.json");
      TRIMTAB_ASSERT(read.ok() && *read == found->plan, "writing and reading is a fixed point");
      continue;
    }
    const auto exported = export_plan(found->plan, kModel, target_of(format, found->plan));
    TRIMTAB_ASSERT(exported.ok(), "a plan that a framework's file says can be said in one");
    const PlanFile written{exported->file_text, "file", std::string(format), exported->arguments, kRanks};
    const auto again = plan_from_file(written, kModel);
    TRIMTAB_ASSERT(again.ok() && semantic_hash(again->plan) == semantic_hash(found->plan),
                   "exporting and importing is a fixed point");
  }
  (void)plan_format_of(text);
  return 0;
}
