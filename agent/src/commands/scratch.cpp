#include "commands/scratch.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/regular_file.hpp"
#include "schema/durable_file.hpp"
#include "schema/state_directory.hpp"

namespace trimtab::agent {

namespace {

Error failed(const char* action, const std::string& path, int code) {
  return unavailable(std::string("couldn't ") + action + " " + path + ": " + std::strerror(code));
}

// The last `count` bytes.
std::string tail_of(const std::string& path, std::size_t count) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = file ? static_cast<std::size_t>(file.tellg()) : 0;
  file.seekg(static_cast<std::streamoff>(size - std::min(size, count)));
  return {std::istreambuf_iterator<char>(file), {}};
}

// Of "nccl-<launch>.table", and of what writing it may have left; nothing for any other file.
std::optional<std::uint64_t> launch_of_table(std::string_view name) {
  constexpr std::string_view kPrefix = "nccl-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  std::uint64_t launch = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), launch);
  const std::string_view rest(end, static_cast<std::size_t>(name.data() + name.size() - end));
  const bool table = error == std::errc{} && (rest == ".table" || rest.starts_with(".table.new"));
  return table ? std::optional(launch) : std::nullopt;
}

}  // namespace

Scratch::Scratch(const std::string& state, const std::string& job, const std::string& variant)
    : path_(state + "/jobs/" + job + (variant.empty() ? "" : "@" + variant)) {}

Status Scratch::create() const {
  return make_private_directories(path_);
}

std::vector<std::string> scratch_paths(const std::string& state) {
  std::vector<std::string> paths;
  std::error_code none_yet;
  for (const auto& entry : std::filesystem::directory_iterator(state + "/jobs", none_yet)) {
    paths.push_back(entry.path().string());
  }
  return paths;
}

std::string job_of_scratch(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return name.substr(0, name.find('@'));
}

std::set<std::string> scratch_jobs(const std::string& state) {
  std::set<std::string> jobs;
  for (const std::string& path : scratch_paths(state)) jobs.insert(job_of_scratch(path));
  return jobs;
}

void keep_nccl_tables(const std::string& path, const std::set<std::uint64_t>& launches) {
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(path, absent)) {
    const auto launch = launch_of_table(entry.path().filename().string());
    if (!launch || launches.contains(*launch)) continue;
    std::error_code refused;
    std::filesystem::remove(entry.path(), refused);
    if (refused) spdlog::warn("couldn't remove {}: {}", entry.path().string(), refused.message());
  }
}

Status Scratch::remove_snapshots() const {
  std::error_code failure;
  std::filesystem::remove_all(snapshots(), failure);
  if (failure) return unavailable("couldn't remove the snapshots " + snapshots() + ": " + failure.message());
  return {};
}

Status write_file(const std::string& path, std::string_view text) {
  return write_durably(path, text, 0644);
}

Result<std::string> read_file(const std::string& path) {
  return read_regular_file(path, std::size_t{256} << 20);
}

Result<int> open_log(const std::string& path) {
  std::error_code ignored;
  std::filesystem::rename(path, path + ".previous", ignored);
  // O_APPEND: whoever shortens the file, the rank goes on at its end.
  const int descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (descriptor < 0) return failed("open the log", path, errno);
  return descriptor;
}

std::int64_t log_bytes(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? static_cast<std::int64_t>(found.st_size) : 0;
}

void bound_log(const std::string& path, Bytes limit) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode) || found.st_size <= limit) return;
  // A log that a power cut takes is no loss. Nor does it matter that nothing could be kept: then room matters most.
  std::remove((path + ".previous").c_str());  // a pipe or a link, too
  std::ofstream(path + ".previous", std::ios::binary | std::ios::trunc)
      << tail_of(path, static_cast<std::size_t>(limit / 4));
  static_cast<void>(::truncate(path.c_str(), 0) == 0);
}

}  // namespace trimtab::agent
