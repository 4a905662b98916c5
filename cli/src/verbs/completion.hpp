#pragma once

// Shell completion, written from the command tree: verbs, options, and what their values are. Pure.

#include <string>

namespace CLI {
class App;
}

namespace trimtab::cli {

[[nodiscard]] std::string bash_completion(const CLI::App& root);
[[nodiscard]] std::string zsh_completion(const CLI::App& root);

}  // namespace trimtab::cli
