#include "targets/launch_reasons.hpp"

#include <algorithm>
#include <optional>

#include "base/text_parts.hpp"
#include "documents/json_document.hpp"
#include "targets/megatron/megatron_arguments.hpp"
#include "targets/megatron/megatron_options.hpp"
#include "targets/shell_variables.hpp"

namespace trimtab {

namespace {

constexpr std::string_view kBlank = " \t\r\n";
constexpr std::size_t kMostNamed = 4;

std::string named(std::string_view text) {
  constexpr std::size_t kMostShown = 120;
  const std::string quoted = quoted_text(std::string(text.substr(0, kMostShown)));
  return text.size() > kMostShown ? quoted + "..." : quoted;
}

// As a word of its own: --num-layers is not --num-layers-at-start.
bool stands_in(std::string_view text, std::string_view option) {
  for (std::size_t at = text.find(option); at != std::string_view::npos; at = text.find(option, at + 1)) {
    const std::size_t end = at + option.size();
    if (end == text.size() || (text[end] != '-' && !is_name_letter(text[end]))) return true;
  }
  return false;
}

// What is not counted, by the first option that says so.
std::string no_such_model(const std::vector<std::string>& words) {
  for (const MegatronArgument& argument : megatron_arguments(words)) {
    const std::string_view what = uncounted(argument.name);
    if (!what.empty())
      return "; it has --" + argument.name + ", and " + std::string(what) + " is not counted from arguments alone";
  }
  return "";
}

// "$NAME", "${NAME}" or "${NAME[@]}", which may hold options; not the value of one.
std::vector<std::string_view> variables_in(const ScriptCommand& command) {
  std::vector<std::string_view> found;
  std::string_view before = "-";
  for (const std::string& word : command.words) {
    for (const std::string_view part : blank_parted(word)) {
      const bool variable = part.starts_with("${")
                                ? part.find('}') == part.size() - 1
                                : part.starts_with('$') && name_length(part.substr(1)) + 1 == part.size();
      if (variable && part.size() > 1 && !before.starts_with('-')) found.push_back(part);
      before = part;
    }
  }
  return found;
}

std::string not_set(const ScriptCommand& command) {
  const bool launches = std::ranges::any_of(command.words, [](const std::string& word) {
    return word.starts_with("--") || word.find(".py") != std::string::npos;
  });
  const std::vector<std::string_view> variables = launches ? variables_in(command) : std::vector<std::string_view>{};
  if (variables.empty()) return "";
  std::string names;
  for (std::size_t i = 0; i < std::min(variables.size(), kMostNamed); ++i) {
    names += (i == 0 ? "" : ", ") + named(variables[i]);
  }
  return "; its command at line " + std::to_string(command.line) + " takes " + names + ", which it does not set";
}

std::optional<std::string> program_in(const std::vector<ScriptCommand>& commands, std::string_view ending) {
  for (const ScriptCommand& command : commands) {
    for (const std::string& word : command.words) {
      for (const std::string_view part : blank_parted(word)) {
        if (part.ends_with(ending)) return std::string(part);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::string reason_for_none(const LaunchScript& script, const std::vector<std::string>& options, std::string_view text,
                            std::string_view option) {
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin != std::string_view::npos && text[begin] == '{') return "; it looks like JSON, which is not read";
  const auto parts = {&script.commands, &script.documents, &script.values};
  if (option == "--num-layers") {
    if (const std::string reason = no_such_model(options); !reason.empty()) return reason;
    for (const auto* commands : parts) {
      for (const ScriptCommand& command : *commands) {
        if (const std::string reason = no_such_model(command.words); !reason.empty()) return reason;
      }
    }
  }
  for (const ScriptCommand& command : script.commands) {
    if (const auto program = program_of_no_gpt(command.words))
      return "; it runs " + *program + ", which is no decoder-only GPT's";
  }
  for (auto command = script.commands.rbegin(); command != script.commands.rend(); ++command) {
    if (const std::string reason = not_set(*command); !reason.empty()) return reason;
  }
  if (stands_in(text, option)) return "; it stands there in no command, list or assignment";
  for (const std::string_view ending : {".py", ".sh"}) {
    for (const auto* commands : parts) {
      if (const auto program = program_in(*commands, ending))
        return "; it runs " + named(*program) + ", with no option of a model";
    }
  }
  return "; it runs no program that trains, and has no option of a model";
}

}  // namespace trimtab
