#include "system_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "proc_text.hpp"

namespace trimtab::host {

std::string system_path(const std::string& root, const std::string& path) {
  return (root.ends_with('/') ? root : root + "/") + path;
}

Result<std::string> read_system_file(const std::string& root, const std::string& path) {
  constexpr std::size_t kMost = 4U << 20;
  const std::string full = system_path(root, path);
  const int descriptor = open(full.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return unavailable("couldn't open " + full + ": " + std::strerror(errno));
  std::string text;
  char buffer[16384];
  ssize_t got = 0;
  while (text.size() < kMost && (got = read(descriptor, buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  const int cause = errno;
  close(descriptor);
  if (got < 0) return unavailable("couldn't read " + full + ": " + std::strerror(cause));
  return text;
}

std::string system_text(const std::string& root, const std::string& path) {
  auto text = read_system_file(root, path);
  return text.ok() ? std::move(text).value() : std::string();
}

std::optional<std::int64_t> system_integer(const std::string& root, const std::string& path) {
  return parse_integer(system_text(root, path));
}

std::vector<std::string> list_system_directory(const std::string& root, const std::string& path) {
  std::vector<std::string> names;
  std::error_code failure;
  std::filesystem::directory_iterator entry(system_path(root, path), failure);
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure)) {
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

bool system_path_exists(const std::string& root, const std::string& path) {
  std::error_code failure;
  return std::filesystem::exists(system_path(root, path), failure);
}

}  // namespace trimtab::host
