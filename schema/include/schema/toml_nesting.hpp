#pragma once

// What every reader of TOML asks and says. TOML++ bounds how deeply values are nested, but not how many parts a dotted
// key has, and each is a table within the one before it: tens of thousands of them exhaust the stack when the tree is
// freed. So check_toml_keys() goes before each parse, and not_toml() says what came of it. Pure; any thread.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace trimtab {

inline constexpr std::size_t kMaxTomlKeyParts = 8;

// One look at each byte. Of what is no TOML it says something, too: as much as a parser would read before it gave up.
[[nodiscard]] bool toml_keys_within(std::string_view toml, std::size_t parts = kMaxTomlKeyParts);

// Refuses a text with a key of more parts, in the name of its `source`.
[[nodiscard]] Status check_toml_keys(std::string_view toml, std::string_view source);
// What a parser found at that line of it.
[[nodiscard]] Error not_toml(std::string_view source, std::size_t line, std::string_view why);

}  // namespace trimtab
