#pragma once

// Options in the words of a command line: "--micro-batch-size 2", "--micro_batch_size=2". Pure.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab::cli {

using Words = std::vector<std::string>;
using Names = std::vector<std::string_view>;

// "--micro-batch-size" of a word that begins with that or with "--micro_batch_size", whatever follows '='.
[[nodiscard]] std::string option_of(const std::string& word);
[[nodiscard]] bool has_option(const Words& words, std::string_view name);
// The value of the last of these options, which counts as for most parsers; nothing where none is given.
[[nodiscard]] std::optional<std::string> value_of(const Words& words, const Names& names);
// How the first of these options is written, without its value; empty: none is given.
[[nodiscard]] std::string spelling_of(const Words& words, const Names& names);
// The words with another value of these options.
[[nodiscard]] Words with_value(Words words, const Names& names, const std::string& value);

}  // namespace trimtab::cli
