#pragma once

// The command line: the tree of verbs, its errors, and the exit codes. main() is one call of run().

#include "verbs/verb.hpp"

namespace trimtab::cli {

// The program's whole command tree; the selection must outlive it.
[[nodiscard]] std::unique_ptr<CLI::App> command_tree(Selection& selection);

// Parses the arguments (without the program's name), runs the verb and returns the exit code. Errors go to console.err.
[[nodiscard]] int run(const std::vector<std::string>& arguments, Console& console);

}  // namespace trimtab::cli
