#pragma once

// Pickles as Python writes them (protocol 4), assembled by hand: tests only. Each function gives the instructions that
// push one value.

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace trimtab::test {

inline std::string pickle_text(const std::string& text) {
  return "\x8c" + std::string(1, static_cast<char>(text.size())) + text;
}

inline std::string pickle_number(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  std::string bytes = "G";
  for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(bits >> static_cast<unsigned>(shift) & 0xffU);
  return bytes;
}

inline std::string pickle_list(const std::vector<std::string>& values) {
  std::string bytes = "](";
  for (const std::string& value : values) bytes += value;
  return bytes + "e";
}

inline std::string pickle_dictionary(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string bytes = "}(";
  for (const auto& [key, value] : items) bytes += pickle_text(key) + value;
  return bytes + "u";
}

// numpy.float64, with `function` where numpy's stands.
inline std::string pickle_numpy(double value, const std::string& module = "numpy.core.multiarray",
                                const std::string& function = "scalar") {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &value, 8);
  const std::string type = pickle_text("numpy") + pickle_text("dtype") + "\x93" + pickle_text("f8") + "\x89\x88\x87R" +
                           "(K\x03" + pickle_text("<") + "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff" +
                           std::string("K\0", 2) + "tb";
  return pickle_text(module) + pickle_text(function) + "\x93" + type + "C\x08" + bytes + "\x86R";
}

inline std::string pickle_file(const std::string& value) {
  return "\x80\x04" + value + ".";
}

}  // namespace trimtab::test
