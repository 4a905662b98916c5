#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "command_line.hpp"
#include "completion.hpp"

namespace trimtab::cli {

namespace {

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

void add_completion(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      add_verb(root, "completion", "Print the completion script of a shell", "source <(trimtab completion bash)");
  add_value(verb, "shell", arguments->shell, "bash|zsh", "Which shell")->required();
  add_json(verb, arguments->json);
  verb->callback([arguments, &selection] {
    selection.action = [arguments](Console& console) { return complete(*arguments, console); };
  });
}

}  // namespace trimtab::cli
