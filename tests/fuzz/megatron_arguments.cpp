// What `trimtab model extract --megatron` and `trimtab plan import` read: a script's words, and the model and the plan
// that they describe as Megatron-LM's arguments. What is accepted is a model that can be written and read, with no
// figure beyond 64 bits, and a plan that is exported to arguments that say it again.

#include <vector>

#include "base/check.hpp"
#include "schema/launch_script.hpp"
#include "schema/megatron_model.hpp"
#include "schema/models/parameters.hpp"
#include "schema/plan_import.hpp"
#include "schema/target.hpp"
#include "target.hpp"

using namespace trimtab;

namespace {

// Layers are alike: of very many only the model's own bounds are of interest.
constexpr std::size_t kMostWritten = 1000;

void check_words(const std::vector<std::string>& words, std::size_t size) {
  std::size_t bytes = 0;
  for (const std::string& word : words) bytes += word.size();
  TRIMTAB_ASSERT(bytes <= size, "words are parts of the text");
}

void check_sums(const Model& model) {
  Bytes parameters = 0;
  Bytes activations = 0;
  std::int64_t operations = 0;
  for (const Operator& op : model.operators) {
    TRIMTAB_ASSERT(op.parameter_bytes >= 0 && op.activation_bytes > 0 && op.output_bytes > 0 && op.forward_flops >= 0,
                   "no figure is negative");
    const bool overflows = __builtin_add_overflow(parameters, op.parameter_bytes, &parameters) ||
                           __builtin_add_overflow(activations, op.activation_bytes, &activations) ||
                           __builtin_add_overflow(operations, op.forward_flops, &operations);
    TRIMTAB_ASSERT(!overflows, "a model's figures can be added up");
  }
}

void check_plan(const std::vector<std::string>& words, const Model& model) {
  constexpr std::int32_t kRanks = 8;
  const auto plan = plan_from_megatron(words, model, kRanks);
  if (!fuzz::judge(plan)) return;
  const auto exported = export_plan(*plan, model, "megatron");
  TRIMTAB_ASSERT(exported.ok(), "a plan that Megatron-LM's arguments say can be said in them");
  const auto again = plan_from_megatron(exported->arguments, model, kRanks);
  TRIMTAB_ASSERT(again.ok() && semantic_hash(*again) == semantic_hash(*plan),
                 "exporting and importing is a fixed point");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string script = fuzz::text_of(data, size);
  const SourcedText itself = [&script](const std::string&) { return std::optional(script); };
  fuzz::judge(launch_words(script, "train.sh", "--num-layers", itself));
  const auto words = shell_words(fuzz::text_of(data, size), "arguments.txt");
  if (!words.ok()) {
    fuzz::check_refusal(words.error());
    return 0;
  }
  check_words(*words, size);
  const auto found = model_from_megatron(*words, "gpt");
  if (!fuzz::judge(found)) return 0;
  check_sums(found->model);
  if (found->model.operators.size() > kMostWritten) return 0;
  const std::string written = to_json(found->model);
  const auto again = parse_whole_model(written, "model.json");
  TRIMTAB_ASSERT(again.ok(), "a model that was counted can be written and read");
  TRIMTAB_ASSERT(to_json(*again) == written, "writing and reading is a fixed point");
  check_plan(*words, found->model);
  return 0;
}
