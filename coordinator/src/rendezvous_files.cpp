#include "rendezvous_files.hpp"

#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace trimtab::coordinator {
namespace {

namespace fs = std::filesystem;

// Nothing for a file of another name.
std::optional<std::int64_t> run_of(std::string_view name) {
  std::int64_t run = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), run);
  const bool is_ours = error == std::errc{} && end != name.data() + name.size() && *end == '-';
  return is_ours ? std::optional(run) : std::nullopt;
}

}  // namespace

void keep_rendezvous_files_of(const std::string& directory, const std::set<std::int64_t>& runs) {
  std::vector<fs::path> old;
  std::error_code failure;
  auto entry = fs::directory_iterator(directory, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    const auto run = run_of(entry->path().filename().string());
    if (run && !runs.contains(*run)) old.push_back(entry->path());
  }
  for (const fs::path& path : old) fs::remove(path, failure);
}

}  // namespace trimtab::coordinator
