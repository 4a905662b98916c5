
#include "arguments.hpp"
#include "base/numbers.hpp"
#include "base/text_parts.hpp"
#include "files.hpp"
#include "plans/module_model.hpp"
#include "schema/hf_model.hpp"
#include "schema/launch_script.hpp"
#include "schema/megatron_model.hpp"
#include "schema/models/parameters.hpp"
#include "terminal_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  std::string megatron;
  std::string hf;
  std::string sequence;
  std::string module;
  std::string python = "python3";
  std::string batch;
  std::string name;
  std::string out;
  std::vector<std::string> neutral;
  bool json = false;  // as every verb has it: a model is JSON anyway
};

// `behind`: what stands behind "--".
Result<std::string> from_megatron(const Arguments& arguments, const std::vector<std::string>& behind,
                                  Console& console) {
  std::vector<std::string> words;
  if (!arguments.megatron.empty()) {
    TRIMTAB_TRY(const std::string text, read_file(arguments.megatron));
    TRIMTAB_TRY(LaunchWords found,
                launch_words(text, arguments.megatron, "--num-layers", files_beside(arguments.megatron)));
    words = std::move(found.words);
  }
  words.insert(words.end(), behind.begin(), behind.end());
  TRIMTAB_TRY(const MegatronModel found,
              model_from_megatron(words, arguments.name.empty() ? "gpt" : arguments.name, arguments.neutral));
  if (!found.how_it_runs.empty()) {
    console.err << "of how the model runs, which measured costs tell:";
    for (const std::string& option : found.how_it_runs) console.err << " " << printable(option);
    console.err << "\n";
  }
  return to_json(found.model);
}

Result<std::int64_t> needed(const std::string& flag, const std::string& text, const char* what) {
  constexpr std::uint64_t kMost = (std::uint64_t{1} << 31) - 1;
  if (text.empty()) return bad_input(flag + ": needed with --hf: " + what);
  TRIMTAB_TRY(const std::uint64_t value, parse_count(flag, text));
  if (value > 0 && value <= kMost) return static_cast<std::int64_t>(value);
  return bad_input(flag + ": expected 1 to " + std::to_string(kMost) + ", found " + text);
}

Result<std::string> from_hf(const Arguments& arguments, Console& console) {
  HfTraining training;
  TRIMTAB_TRY(training.sequence, needed("--sequence", arguments.sequence, "tokens of a sample"));
  TRIMTAB_TRY(training.global_batch, needed("--global-batch", arguments.batch, "samples of a step"));
  TRIMTAB_TRY(const std::string text, read_file(arguments.hf));
  TRIMTAB_TRY(const Model model,
              model_from_hf(text, arguments.hf, training, arguments.name.empty() ? "model" : arguments.name));
  if (const std::vector<std::string> names = hf_members_not_counted(text); !names.empty())
    console.err << "not counted, whatever the model does with it: " << printable(joined(names)) << "\n";
  return to_json(model);
}

Result<int> extract(const Arguments& arguments, const std::vector<std::string>& words, Console& console) {
  const bool megatron = !arguments.megatron.empty() || !words.empty();
  if ((megatron ? 1 : 0) + (arguments.hf.empty() ? 0 : 1) + (arguments.module.empty() ? 0 : 1) != 1) {
    return bad_input(
        "model extract: needs Megatron-LM's arguments (--megatron FILE, or behind --), --hf config.json or --module, "
        "one "
        "of them");
  }
  TRIMTAB_TRY_STATUS(check_apart("--out", arguments.out, {arguments.megatron, arguments.hf}));
  TRIMTAB_TRY(const std::string text,
              megatron ? from_megatron(arguments, words, console)
              : !arguments.hf.empty()
                  ? from_hf(arguments, console)
                  : model_of_module({arguments.python, arguments.module, arguments.batch, arguments.name, {}}));
  // What is handed out can be read again.
  TRIMTAB_TRY(const Model model, parse_whole_model(text, "the extracted model"));
  if (const std::string experts = experts_words(model); !experts.empty()) {
    console.err << experts << "; nothing prices experts yet, so no plan of this model is read, searched or tried\n";
  }
  TRIMTAB_TRY_STATUS(hand_out(to_json(model) + "\n", arguments.out,
                              "wrote " + arguments.out + ": " + std::to_string(model.operators.size()) +
                                  " operators, " + format_number(parameter_bytes(model).all, 0) +
                                  " bytes of parameters",
                              console));
  return 0;
}

}  // namespace

void add_model(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App& model = add_group(root, "model", "Make model.json", "trimtab model extract --megatron arguments.txt");
  CLI::App* verb = add_verb(
      model, "extract", "Make model.json from Megatron-LM's arguments, transformers' config.json or a PyTorch module",
      "trimtab model extract --megatron arguments.txt --name gpt-1.3b --out model.json\n"
      "  trimtab model extract -- --num-layers 24 --hidden-size 2048 ...\n"
      "  trimtab model extract --hf config.json --sequence 4096 --global-batch 256\n"
      "  trimtab model extract --module my_model:layers --global-batch 64 --out model.json");
  add_value(verb, "--megatron", arguments->megatron, "FILE",
            "A launch script of Megatron-LM, or its arguments alone; others may stand behind --");
  add_values(verb, "--neutral", arguments->neutral, "NAME",
             "An option of your own that changes neither the model, nor its memory, nor its time (with Megatron-LM's "
             "arguments)");
  add_value(verb, "--hf", arguments->hf, "FILE", "config.json of a decoder, as transformers has it");
  add_value(verb, "--sequence", arguments->sequence, "N", "Tokens of a sample (with --hf)");
  add_value(verb, "--module", arguments->module, "MODULE:FUNCTION",
            "A function that returns the layers in order and an example input (client/python/trimtab/module_model.py)");
  add_value(verb, "--python", arguments->python, "FILE", "The Python that has PyTorch", Need::kHasDefault);
  add_value(verb, "--global-batch", arguments->batch, "N", "Samples of a step (with --module or --hf)");
  add_value(verb, "--name", arguments->name, "TEXT", "The model's name");
  add_value(verb, "--out", arguments->out, "FILE", "Where to write (default: standard output)");
  add_action(verb, selection, arguments, extract);
}

}  // namespace trimtab::cli
