#include "schema/hash64.hpp"

namespace trimtab {

std::uint64_t hash64(std::string_view bytes) {
  std::uint64_t state = 0xcbf29ce484222325U;
  for (const char byte : bytes) {
    state ^= static_cast<unsigned char>(byte);
    state *= 0x100000001b3U;
  }
  state ^= state >> 33;
  state *= 0xff51afd7ed558ccdU;
  state ^= state >> 33;
  state *= 0xc4ceb9fe1a85ec53U;
  return state ^ (state >> 33);
}

std::string hash64_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const std::uint64_t value = hash64(bytes);
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(value >> shift) & 15U];
  return text;
}

}  // namespace trimtab
