#include "target.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/check.hpp"

namespace trimtab::fuzz {

namespace {

std::uint64_t understood_count = 0;

bool is_utf8(std::string_view text) {
  try {
    (void)nlohmann::json(std::string(text)).dump();  // throws on anything else
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

}  // namespace

void understood() {
  ++understood_count;
}

std::uint64_t understood_so_far() {
  return understood_count;
}

void check_utf8(std::string_view text, const char* what) {
  TRIMTAB_ASSERT(is_utf8(text), what);
}

void check_refusal(const Error& error, Repeats repeats) {
  TRIMTAB_ASSERT(!error.message.empty(), "a refusal says why");
  TRIMTAB_ASSERT(repeats == Repeats::kAll || error.message.size() < 5000, "a refusal can be read");
  check_utf8(error.message, "a refusal is valid UTF-8");
}

ScratchDirectory::ScratchDirectory() {
  std::error_code failure;
  const bool has_memory = std::filesystem::is_directory("/dev/shm", failure);
  path_ =
      (has_memory ? std::string("/dev/shm") : std::filesystem::temp_directory_path().string()) + "/trimtab-fuzz-XXXXXX";
  TRIMTAB_ASSERT(::mkdtemp(path_.data()) != nullptr, "a directory for the inputs can be made");
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void ScratchDirectory::write(const std::string& name, std::string_view text) const {
  std::ofstream file(path_ + "/" + name, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  TRIMTAB_ASSERT(file.good(), "an input can be written");
}

void ScratchDirectory::clear() const {
  for (const auto& entry : std::filesystem::directory_iterator(path_)) std::filesystem::remove_all(entry);
}

std::uint8_t Script::byte() {
  return static_cast<std::uint8_t>(number(1));
}

std::uint64_t Script::number(std::size_t bytes) {
  std::uint64_t value = 0;
  const std::size_t count = std::min(bytes, left_);
  for (std::size_t i = 0; i < count; ++i) value |= std::uint64_t{data_[i]} << (8 * i);
  data_ += count;
  left_ -= count;
  return value;
}

std::string_view Script::bytes(std::size_t count) {
  const std::string_view piece(reinterpret_cast<const char*>(data_), std::min(count, left_));
  data_ += piece.size();
  left_ -= piece.size();
  return piece;
}

}  // namespace trimtab::fuzz
