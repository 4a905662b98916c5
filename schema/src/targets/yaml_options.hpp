#pragma once

// Options in YAML as Megatron-LM's test configurations keep them, a line each under MODEL_ARGS: "  --hidden-size:
// 1024". Pure.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace trimtab {

// Whether a line is such an option.
[[nodiscard]] bool has_yaml_options(std::string_view text);

// The words of a command line that says them: a flag where the value is true or missing, nothing where it is false,
// each word of "[a b]". Of MODEL_ARGS, where the text has that block, with the blocks that it merges ("<<: *NAME").
// Fails on a value that goes on in further lines and on another merge, naming the line.
[[nodiscard]] Result<std::vector<std::string>> yaml_options(std::string_view text, std::string_view source);

}  // namespace trimtab
