#pragma once

// Blind mutation, for builds without libFuzzer.

#include <string>
#include <string_view>
#include <vector>

#include "base/random.hpp"

namespace trimtab::fuzz {

// The words of a dictionary in libFuzzer's form: name="text", with \xHH, \\ and \" in it; '#' begins a comment. A line
// that is none ends the program.
[[nodiscard]] std::vector<std::string> dictionary_words(std::string_view text);

// One to three changes: bytes go, come again elsewhere or become others, a word comes in between or takes a whole
// value's place.
[[nodiscard]] std::string mutated(std::string input, const std::vector<std::string>& words, Random& random);

}  // namespace trimtab::fuzz
