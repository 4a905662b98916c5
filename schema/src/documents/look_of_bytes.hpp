#pragma once

// What a file of another kind than was wanted looks like, in words, for whoever gave it. Pure; any thread.

#include <string>
#include <string_view>

namespace trimtab {

// By its first bytes, unpacked, and its name: "a script", with what to do where there is something. Empty = it may be
// JSON.
[[nodiscard]] std::string look_of_bytes(std::string_view begin, std::string_view name);

}  // namespace trimtab
