// `trimtab init -- COMMAND`: job.toml for a command that somebody types to train.

#include "init/command_job.hpp"
#include "json_text.hpp"
#include "plans/plan_text.hpp"
#include "schema/job.hpp"
#include "terminal_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  std::string out = "job.toml";
  std::string model;
  bool json = false;
};

void say(const JobDraft& draft, const std::string& out, Console& console) {
  console.out << "wrote " << out << ": " << draft.world_size << (draft.world_size == 1 ? " rank, " : " ranks, ")
              << (draft.target.empty() ? "no target" : "target " + draft.target) << " (" << draft.why << ")\n";
  if (draft.plan)
    console.out << "wrote " << plan_path(out) << ", what the command runs: " << one_line(*draft.plan) << "\n";
  for (const std::string& remark : draft.remarks) console.out << "  - " << printable(remark) << "\n";
  console.out << "Look at its lines with CHECK. Then: trimtab doctor --job " << out << " && trimtab tune --job " << out
              << "\n";
}

Result<int> init(const Arguments& arguments, const std::vector<std::string>& given, Console& console) {
  DraftWishes wishes;
  wishes.model = arguments.model;
  TRIMTAB_TRY(const JobDraft draft, job_of_command("init", given, arguments.out, wishes));
  // What is written can be read again.
  const auto parsed = parse_job_toml(draft.toml, arguments.out, ".");
  if (!parsed.ok()) return wrap("init: cannot say this command in a job file", parsed.error());
  TRIMTAB_TRY_STATUS(write_draft(draft, arguments.out, "init", "; name another file with --out FILE"));
  if (!arguments.json) {
    say(draft, arguments.out, console);
    return 0;
  }
  console.out << json_text({{"job", arguments.out},
                            {"plan", draft.plan ? plan_path(arguments.out) : ""},
                            {"name", draft.name},
                            {"target", draft.target},
                            {"world_size", draft.world_size},
                            {"mode", draft.plans ? "recommend" : "observe"},
                            {"remarks", draft.remarks}})
              << "\n";
  return 0;
}

}  // namespace

void add_init(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "init", "Write job.toml and, where it says one, plan.json for the command behind --",
                            "trimtab init -- torchrun --nproc_per_node 2 train.py --steps 2000");
  add_value(verb, "--out", arguments->out, "FILE", "Where to write; a file that is there stays", Need::kHasDefault);
  add_value(
      verb, "--model", arguments->model, "FILE",
      "model.json of what a Trainer's command trains (default: of config.json where --model_name_or_path names it)");
  add_action(verb, selection, arguments, init);
}

}  // namespace trimtab::cli
