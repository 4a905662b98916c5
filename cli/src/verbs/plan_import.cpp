// `trimtab plan import FILE`, `-- COMMAND`: the plan that a framework's own file or a command's arguments say.

#include "schema/plan_import.hpp"
#include "arguments.hpp"
#include "documents.hpp"
#include "files.hpp"
#include "plans/plan_source.hpp"
#include "plans/plan_text.hpp"
#include "schema/megatron_model.hpp"
#include "terminal_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  std::string file;
  std::string from;
  std::string model;
  std::string ranks;
  std::string out;
  std::vector<std::string> neutral;
  bool json = false;  // as every verb has it: a plan is JSON anyway
};

Result<std::optional<std::int32_t>> ranks_of(const Arguments& arguments, std::optional<std::int32_t> launched) {
  constexpr std::uint64_t kMost = 1 << 20;
  if (arguments.ranks.empty()) return launched;
  TRIMTAB_TRY(const std::uint64_t ranks, parse_count("--ranks", arguments.ranks));
  if (ranks > 0 && ranks <= kMost) return std::optional(static_cast<std::int32_t>(ranks));
  return bad_input("--ranks: expected 1 to " + std::to_string(kMost) + ", found " + arguments.ranks);
}

Result<FoundPlan> plan_of(const MegatronWords& said, const Arguments& arguments) {
  TRIMTAB_TRY(const std::optional<std::int32_t> ranks, ranks_of(arguments, said.ranks));
  if (!ranks) return bad_input("--ranks: needed, since no launcher in the command says how many ranks run it");
  Model model;
  if (!arguments.model.empty()) {
    TRIMTAB_TRY(model, read_model(arguments.model));
  } else {
    TRIMTAB_TRY(MegatronModel counted, model_from_megatron(said.words, "gpt", arguments.neutral));
    model = std::move(counted.model);
  }
  TRIMTAB_TRY(Plan plan, plan_from_megatron(said.words, model, *ranks));
  return FoundPlan{std::move(plan)};
}

Result<FoundPlan> plan_of(PlanFile file, const Arguments& arguments) {
  TRIMTAB_TRY(file.ranks, ranks_of(arguments, file.ranks));
  if (arguments.model.empty()) {
    return bad_input("--model: needed, since " + file.source +
                     " does not say the model's layers; 'trimtab model extract' writes model.json");
  }
  TRIMTAB_TRY(const Model model, read_model(arguments.model));
  return plan_from_file(file, model);
}

Result<int> import_plan(const Arguments& arguments, const std::vector<std::string>& command, Console& console) {
  if (!arguments.from.empty()) TRIMTAB_TRY_STATUS(check_choice("--from", arguments.from, plan_sources()));
  TRIMTAB_TRY_STATUS(check_apart("--out", arguments.out, {arguments.file, arguments.model}));
  TRIMTAB_TRY(const PlanSource source, read_plan_source(arguments.file, command, arguments.from));
  TRIMTAB_TRY(const FoundPlan found, std::visit([&](const auto& said) { return plan_of(said, arguments); }, source));
  if (!found.passed_over.empty()) {
    console.err << "says nothing of a plan, and is passed over: " << printable(joined(found.passed_over)) << "\n";
  }
  TRIMTAB_TRY_STATUS(hand_out(to_json(found.plan) + "\n", arguments.out,
                              "wrote " + arguments.out + ": " + one_line(found.plan), console));
  return 0;
}

std::string choices() {
  std::string text;
  for (const std::string_view name : plan_sources()) text += (text.empty() ? "" : "|") + std::string(name);
  return text;
}

}  // namespace

void add_plan_import(CLI::App& plan, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(plan, "import", "Write the plan that a framework's own file or arguments say",
                            "trimtab plan import --out plan.json -- torchrun --nproc_per_node 8 pretrain_gpt.py ...\n"
                            "  trimtab plan import train.sh --ranks 64 --out plan.json\n"
                            "  trimtab plan import ds_config.json --ranks 8 --model model.json --out plan.json");
  add_value(verb, "arguments", arguments->file, "FILE",
            "A framework's configuration, a launch script or arguments alone; a command may stand behind --");
  add_value(verb, "--from", arguments->from, choices(), "Whose FILE is (default: as its content says)");
  add_value(verb, "--model", arguments->model, "FILE", "model.json (default: of Megatron-LM's arguments)");
  add_values(verb, "--neutral", arguments->neutral, "NAME",
             "An option of your own that changes neither the model, nor its memory, nor its time");
  add_value(verb, "--ranks", arguments->ranks, "N", "All ranks of the job (default: as the launcher or the file says)");
  add_value(verb, "--out", arguments->out, "FILE", "Where to write (default: standard output)");
  add_action(verb, selection, arguments, import_plan);
}

}  // namespace trimtab::cli
