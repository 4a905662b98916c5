#include "completion.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

namespace trimtab::cli {

namespace {

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option*) { return true; });
}

std::string replaced(std::string text, char from, std::string_view to) {
  std::string result;
  for (const char c : text) result += c == from ? std::string(to) : std::string(1, c);
  return result;
}

std::string words_of(const CLI::App& app) {
  std::string words;
  for (const CLI::App* verb : verbs_of(app)) words += (words.empty() ? "" : " ") + verb->get_name();
  for (const CLI::Option* option : options_of(app)) {
    for (const std::string& name : option->get_lnames()) words += (words.empty() ? "--" : " --") + name;
  }
  return words;
}

bool takes_files(const CLI::App& app) {
  const auto options = options_of(app);
  return std::any_of(options.begin(), options.end(), [](const CLI::Option* option) {
    return option->get_positional() && (option->get_type_name() == "FILE" || option->get_type_name() == "DIR");
  });
}

// What bash offers for a value of this type; choices are written "a|b", capitals stand for free text.
std::string bash_values(const std::string& type) {
  if (type == "FILE") return "_trimtab_files";
  if (type == "DIR") return "compopt -o dirnames; COMPREPLY=($(compgen -d -- \"$word\"))";
  const bool free_text = std::any_of(type.begin(), type.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  if (type.empty() || free_text) return "COMPREPLY=()";
  return "COMPREPLY=($(compgen -W '" + replaced(type, '|', " ") + "' -- \"$word\"))";
}

void bash_cases(const CLI::App& app, const std::string& path, std::string& words, std::string& values) {
  words += "    '" + path + "') words='" + words_of(app) + "'; files=" + (takes_files(app) ? "1" : "") + " ;;\n";
  for (const CLI::Option* option : options_of(app)) {
    if (option->get_items_expected_max() == 0) continue;
    for (const std::string& name : option->get_lnames()) {
      values += "    '" + path + " --" + name + "') " + bash_values(option->get_type_name()) + "; return ;;\n";
    }
  }
  for (const CLI::App* verb : verbs_of(app)) bash_cases(*verb, path + " " + verb->get_name(), words, values);
}

std::string verb_paths(const CLI::App& app, const std::string& path) {
  std::string paths;
  for (const CLI::App* verb : verbs_of(app)) {
    const std::string inner = path + " " + verb->get_name();
    paths += "|'" + inner + "'" + verb_paths(*verb, inner);
  }
  return paths;
}

std::string function_name(const std::string& path) {
  return "_" + replaced(replaced(path, ' ', "_"), '-', "_");
}

// Inside single quotes, where a colon and brackets mean something to _arguments.
std::string zsh_text(std::string text) {
  text = replaced(std::move(text), '\'', "'\\''");
  text = replaced(std::move(text), ':', "\\:");
  text = replaced(std::move(text), '[', "(");
  return replaced(std::move(text), ']', ")");
}

std::string zsh_values(const std::string& type) {
  if (type == "FILE") return "_files";
  if (type == "DIR") return "_files -/";
  const bool free_text = std::any_of(type.begin(), type.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  return type.empty() || free_text ? " " : "(" + replaced(type, '|', " ") + ")";
}

std::string zsh_option(const CLI::Option& option) {
  const std::string& type = option.get_type_name();
  std::string text;
  for (const std::string& name : option.get_lnames()) {
    text += " \\\n    '--" + name + "[" + zsh_text(option.get_description()) + "]";
    text += option.get_items_expected_max() == 0 ? "'" : ":" + zsh_text(type) + ":" + zsh_values(type) + "'";
  }
  if (option.get_lnames().empty() && option.get_positional()) {
    text += " \\\n    '*:" + zsh_text(option.get_description()) + ":" + zsh_values(type) + "'";
  }
  return text;
}

std::string zsh_function(const CLI::App& app, const std::string& path) {
  const auto verbs = verbs_of(app);
  std::string text = function_name(path) + "() {\n  local line state\n  _arguments -C";
  bool positional = false;
  for (const CLI::Option* option : options_of(app)) {
    const bool another = option->get_lnames().empty();
    if (!another || !positional) text += zsh_option(*option);
    positional = positional || another;
  }
  if (verbs.empty()) {
    text += "\n}\n";
  } else {
    text += " \\\n    '1: :((";
    for (const CLI::App* verb : verbs)
      text += " " + verb->get_name() + "\\:\"" + zsh_text(verb->get_description()) + "\"";
    text += "))' '*::argument:->rest'\n  case $line[1] in\n";
    for (const CLI::App* verb : verbs) {
      text += "    " + verb->get_name() + ") " + function_name(path + " " + verb->get_name()) + " ;;\n";
    }
    text += "  esac\n}\n";
  }
  for (const CLI::App* verb : verbs) text += zsh_function(*verb, path + " " + verb->get_name());
  return text;
}

}  // namespace

std::string bash_completion(const CLI::App& root) {
  std::string words;
  std::string values;
  bash_cases(root, root.get_name(), words, values);
  return "# bash completion for trimtab; load it with:  source <(trimtab completion bash)\n"
         "_trimtab_files() { compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$word\")); }\n"
         "_trimtab() {\n"
         "  local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\" path='trimtab' words='' "
         "files='' i\n"
         "  COMPREPLY=()\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    case \"$path ${COMP_WORDS[i]}\" in\n      " +
         verb_paths(root, root.get_name()).substr(1) +
         ") path=\"$path ${COMP_WORDS[i]}\" ;;\n    esac\n  done\n"
         "  case \"$path $before\" in\n" +
         values +
         "  esac\n"
         "  case \"$path\" in\n" +
         words +
         "  esac\n"
         "  if [[ -n $files && $word != -* ]]; then _trimtab_files; return; fi\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "}\ncomplete -F _trimtab trimtab\n";
}

std::string zsh_completion(const CLI::App& root) {
  return "#compdef trimtab\n# zsh completion for trimtab; load it with:  source <(trimtab completion zsh)\n" +
         zsh_function(root, root.get_name()) + "compdef _trimtab trimtab\n";
}

}  // namespace trimtab::cli
