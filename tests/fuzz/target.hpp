#pragma once

// What fuzz targets share. A target is one LLVMFuzzerTestOneInput: whatever the bytes, no crash, no sanitizer's
// finding, no stall, and nothing of one input left for the next. Each program holds one target.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace trimtab::fuzz {

[[nodiscard]] inline std::string text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A parser said yes. A corpus of which nothing is understood tests nothing behind the parsers: the replay refuses it.
void understood();
[[nodiscard]] std::uint64_t understood_so_far();

// A refusal says something that can be read: not empty, not endless, valid UTF-8. What a person has written may be
// repeated whole.
enum class Repeats { kPart, kAll };
void check_refusal(const Error& error, Repeats repeats = Repeats::kPart);
void check_utf8(std::string_view text, const char* what);

// Counts what was understood, looks at what was refused. Whether the parser said yes.
template <typename Outcome>
bool judge(const Outcome& outcome, Repeats repeats = Repeats::kPart) {
  outcome.ok() ? understood() : check_refusal(outcome.error(), repeats);
  return outcome.ok();
}

// A directory in memory, where the machine has such a place; removed with all that is in it.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  void write(const std::string& name, std::string_view text) const;
  // Removes what is in it.
  void clear() const;

 private:
  std::string path_;
};

// Takes an input apart, from its front; zeros and empty texts once it has ended.
class Script {
 public:
  Script(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  [[nodiscard]] bool ended() const { return left_ == 0; }
  [[nodiscard]] std::uint8_t byte();
  [[nodiscard]] std::uint64_t number(std::size_t bytes);  // little-endian
  [[nodiscard]] std::string_view bytes(std::size_t count);
  [[nodiscard]] std::string_view rest() { return bytes(left_); }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

}  // namespace trimtab::fuzz
