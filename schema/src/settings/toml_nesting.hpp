#pragma once

// TOML++ bounds how deeply values are nested, but not how many parts a dotted key has, and each is a table within the
// one before it: tens of thousands of them exhaust the stack when the tree is freed. So this goes before each parse.
// Pure; any thread.

#include <cstddef>
#include <string_view>

namespace trimtab {

inline constexpr std::size_t kMaxTomlKeyParts = 8;

// One look at each byte. Of what is no TOML it says something, too: as much as a parser would read before it gave up.
[[nodiscard]] bool toml_keys_within(std::string_view toml, std::size_t parts = kMaxTomlKeyParts);

}  // namespace trimtab
