// `trimtab plan import -- COMMAND`: the plan that a command runs, read from its arguments.

#include "arguments.hpp"
#include "documents.hpp"
#include "files.hpp"
#include "init/command_reading.hpp"
#include "plans/plan_text.hpp"
#include "schema/launch_script.hpp"
#include "schema/megatron_model.hpp"
#include "schema/megatron_plan.hpp"
#include "terminal_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  std::string file;
  std::string model;
  std::string ranks;
  std::string out;
  std::vector<std::string> neutral;
  bool json = false;  // as every verb has it: a plan is JSON anyway
};

// The framework's arguments, and the ranks that a launcher before them starts.
struct Said {
  std::vector<std::string> words;
  std::optional<std::int32_t> ranks;
};

void add_command(const std::vector<std::string>& command, Said& said) {
  const CommandReading reading = read_command(command);
  said.words.insert(said.words.end(), reading.script_options.begin(), reading.script_options.end());
  if (!reading.launchers.empty()) said.ranks = reading.world_size();
}

Result<Said> read_words(const Arguments& arguments, const std::vector<std::string>& command) {
  Said said;
  if (!arguments.file.empty()) {
    TRIMTAB_TRY(const std::string text, read_file(arguments.file));
    TRIMTAB_TRY(LaunchWords found, launch_words(text, arguments.file, "--micro-batch-size"));
    if (found.command) {
      add_command(found.words, said);
    } else {
      said.words = std::move(found.words);
    }
  }
  if (command.empty() || command.front().starts_with("--")) {
    said.words.insert(said.words.end(), command.begin(), command.end());
  } else {
    add_command(command, said);
  }
  if (!said.words.empty()) return said;
  return bad_input("plan import: needs Megatron-LM's arguments, in a FILE or in a command behind --");
}

Result<std::int32_t> ranks_of(const Arguments& arguments, const Said& said) {
  constexpr std::uint64_t kMost = 1 << 20;
  if (!arguments.ranks.empty()) {
    TRIMTAB_TRY(const std::uint64_t ranks, parse_count("--ranks", arguments.ranks));
    if (ranks > 0 && ranks <= kMost) return static_cast<std::int32_t>(ranks);
    return bad_input("--ranks: expected 1 to " + std::to_string(kMost) + ", found " + arguments.ranks);
  }
  if (said.ranks) return *said.ranks;
  return bad_input("--ranks: needed, since no launcher in the command says how many ranks run it");
}

Result<int> import_plan(const Arguments& arguments, const std::vector<std::string>& command, Console& console) {
  TRIMTAB_TRY(const Said said, read_words(arguments, command));
  TRIMTAB_TRY(const std::int32_t ranks, ranks_of(arguments, said));
  Model model;
  if (!arguments.model.empty()) {
    TRIMTAB_TRY(model, read_model(arguments.model));
  } else {
    TRIMTAB_TRY(MegatronModel counted, model_from_megatron(said.words, "gpt", arguments.neutral));
    model = std::move(counted.model);
  }
  TRIMTAB_TRY(const Plan plan, plan_from_megatron(said.words, model, ranks));
  TRIMTAB_TRY_STATUS(
      hand_out(to_json(plan) + "\n", arguments.out, "wrote " + arguments.out + ": " + one_line(plan), console));
  return 0;
}

}  // namespace

void add_plan_import(CLI::App& plan, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(plan, "import", "Write the plan that Megatron-LM's arguments say",
                            "trimtab plan import --out plan.json -- torchrun --nproc_per_node 8 pretrain_gpt.py ...\n"
                            "  trimtab plan import train.sh --ranks 64 --out plan.json");
  add_value(verb, "arguments", arguments->file, "FILE",
            "A launch script, or arguments alone; a command may stand behind --");
  add_value(verb, "--model", arguments->model, "FILE", "model.json (default: the model of the same arguments)");
  add_values(verb, "--neutral", arguments->neutral, "NAME",
             "An option of your own that changes neither the model, nor its memory, nor its time");
  add_value(verb, "--ranks", arguments->ranks, "N", "All ranks of the job (default: as the launcher says)");
  add_value(verb, "--out", arguments->out, "FILE", "Where to write (default: standard output)");
  add_action(verb, selection, arguments, import_plan);
}

}  // namespace trimtab::cli
