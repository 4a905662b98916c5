#pragma once

// How deeply a JSON text from elsewhere may be nested. Readers build trees that are copied and written by recursion:
// brackets alone, some ten thousand of them, would exhaust a stack. The documents' own parsers have this limit; whoever
// gives such a text to another parser asks here first. Pure; any thread.

#include <cstddef>
#include <string>
#include <string_view>

namespace trimtab {

inline constexpr std::size_t kMaxJsonLevels = 64;

// One look at each byte. Of what is no JSON it says something, too: not less than a parser would find before it gave
// up.
[[nodiscard]] bool json_nested_within(std::string_view json, std::size_t levels = kMaxJsonLevels);

// "nested deeper than 64 levels", for messages.
[[nodiscard]] std::string json_nesting_refusal();

}  // namespace trimtab
