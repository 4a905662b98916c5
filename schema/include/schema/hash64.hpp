#pragma once

// A 64-bit hash that is the same on every platform and in every release: FNV-1a over the bytes, then a finalizer that
// spreads them over all bits. For names of things that we made ourselves; not against an adversary.

#include <cstdint>
#include <string>
#include <string_view>

namespace trimtab {

[[nodiscard]] std::uint64_t hash64(std::string_view bytes);
// As 16 lower-case hex digits.
[[nodiscard]] std::string hash64_hex(std::string_view bytes);

}  // namespace trimtab
