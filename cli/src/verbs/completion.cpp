#include "verbs/completion.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "command_line.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return !is_hidden(verb); });
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option*) { return true; });
}

std::string replaced(const std::string& text, char from, std::string_view to) {
  std::string result;
  for (const char c : text) result += c == from ? std::string(to) : std::string(1, c);
  return result;
}

std::string words_of(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* verb : verbs_of(app)) words.push_back(verb->get_name());
  for (const CLI::Option* option : options_of(app)) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  return joined(words, " ");
}

bool takes_files(const CLI::App& app) {
  return std::ranges::any_of(options_of(app), [](const CLI::Option* option) {
    return option->get_positional() && (option->get_type_name() == "FILE" || option->get_type_name() == "DIR");
  });
}

// Choices are written "a|b"; capitals stand for free text.
std::string choices_of(const std::string& type) {
  const bool free_text = std::ranges::any_of(type, [](char c) { return c >= 'A' && c <= 'Z'; });
  return free_text ? "" : replaced(type, '|', " ");
}

// What bash offers for a value of this type.
std::string bash_values(const std::string& type) {
  if (type == "FILE") return "_trimtab_files";
  if (type == "DIR") return "compopt -o dirnames; COMPREPLY=($(compgen -d -- \"$word\"))";
  const std::string choices = choices_of(type);
  return choices.empty() ? "COMPREPLY=()" : "COMPREPLY=($(compgen -W '" + choices + "' -- \"$word\"))";
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
std::string zsh_text(const std::string& text) {
  return replaced(replaced(replaced(replaced(text, '\'', "'\\''"), ':', "\\:"), '[', "("), ']', ")");
}

std::string zsh_values(const std::string& type) {
  if (type == "FILE") return "_files";
  if (type == "DIR") return "_files -/";
  const std::string choices = choices_of(type);
  return choices.empty() ? " " : "(" + choices + ")";
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

struct Arguments {
  std::string shell;
  bool json = false;
};

Result<int> complete(const Arguments& arguments, Console& console) {
  if (arguments.shell != "bash" && arguments.shell != "zsh") {
    return bad_input("completion: expected bash or zsh, but found '" + arguments.shell + "'");
  }
  Selection unused;
  const std::unique_ptr<CLI::App> root = command_tree(unused);
  const std::string script = arguments.shell == "bash" ? bash_completion(*root) : zsh_completion(*root);
  console.out << (arguments.json ? nlohmann::json{{"shell", arguments.shell}, {"script", script}}.dump() + "\n"
                                 : script);
  return 0;
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

void add_completion(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      add_verb(root, "completion", "Print the completion script of a shell", "source <(trimtab completion bash)");
  add_value(verb, "shell", arguments->shell, "bash|zsh", "Which shell", Need::kRequired);
  add_action(verb, selection, arguments, complete);
}

}  // namespace trimtab::cli
