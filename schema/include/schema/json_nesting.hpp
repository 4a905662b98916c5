#pragma once

// What a JSON text from elsewhere must not have: deep nesting, and two fields of one name. Readers build trees that are
// copied and written by recursion: brackets alone, some ten thousand of them, would exhaust a stack. The documents' own
// parsers refuse both; whoever gives such a text to another parser asks here first. Pure; any thread.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace trimtab {

inline constexpr std::size_t kMaxJsonLevels = 64;

// One look at each byte. Of what is no JSON it says something, too: not less than a parser would find before it gave
// up.
[[nodiscard]] bool json_nested_within(std::string_view json, std::size_t levels = kMaxJsonLevels);

// Why a text with two fields of one name in one object is refused, with the name: readers would take different ones.
// Nothing where there are none. A text that is no JSON is looked at as far as it is some.
[[nodiscard]] std::optional<std::string> repeated_json_field(std::string_view json);

// "nested deeper than 64 levels", for messages.
[[nodiscard]] std::string json_nesting_refusal();

}  // namespace trimtab
