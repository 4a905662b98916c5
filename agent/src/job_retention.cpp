#include "job_retention.hpp"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "scratch.hpp"

namespace trimtab::agent {

namespace {

namespace fs = std::filesystem;

// Where directories wait for their end.
std::string aside(const std::string& state) {
  return state + "/removed-jobs";
}

// When a file was changed last, in nanoseconds since the Unix epoch; 0 where it is gone.
std::int64_t changed_ns(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return 0;
  return std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec;
}

// Of a job's directory: what stands in it counts, and what stands in directories there, such as a snapshot's files.
std::int64_t last_change(const std::string& directory) {
  std::int64_t latest = changed_ns(directory);
  std::error_code gone;
  auto entry = fs::recursive_directory_iterator(directory, gone);
  for (; !gone && entry != fs::recursive_directory_iterator(); entry.increment(gone)) {
    latest = std::max(latest, changed_ns(entry->path().string()));
  }
  return latest;
}

std::string job_of(const std::string& directory) {
  const std::string name = fs::path(directory).filename().string();
  return name.substr(0, name.find('@'));
}

// Up to so many files and empty directories; how many went.
std::size_t remove_within(const fs::path& directory, std::size_t most, std::error_code& failure) {
  std::size_t count = 0;
  std::vector<fs::path> found;
  auto entry = fs::directory_iterator(directory, failure);
  for (; !failure && entry != fs::directory_iterator() && found.size() < most; entry.increment(failure)) {
    found.push_back(entry->path());
  }
  for (const fs::path& path : found) {
    if (failure || count >= most) return count;
    if (fs::is_directory(fs::symlink_status(path, failure))) count += remove_within(path, most - count, failure);
    if (!failure && count < most) count += fs::remove(path, failure) ? 1 : 0;
  }
  return count;
}

}  // namespace

void JobRetention::told(std::optional<std::set<std::string>> unfinished) {
  unfinished_ = std::move(unfinished);
}

void JobRetention::step(Nanoseconds now, Nanoseconds wall) {
  const bool trusted = trusts_clocks(now, wall);
  if (parts_.kept_for.count() == 0 || remove_some() || !unfinished_) return;
  if (!trusted) return due_.clear();
  if (due_.empty() && now >= next_look_) {
    next_look_ = now + std::min<Nanoseconds>(std::chrono::minutes(10), parts_.kept_for / 4);
    look(wall);
  }
  if (!due_.empty()) take_next(wall);
}

bool JobRetention::trusts_clocks(Nanoseconds now, Nanoseconds wall) {
  if (const Nanoseconds jump = clocks_.look(now, wall); jump.count() != 0) {
    spdlog::warn("the wall clock has jumped by {} s: until it has been steady for a day, what jobs left is kept",
                 std::chrono::duration_cast<std::chrono::seconds>(jump).count());
  }
  return clocks_.tells(parts_.kept_for, now);
}

bool JobRetention::remove_some() {
  std::error_code failure;
  const std::size_t count = remove_within(aside(parts_.state), kFilesAtOnce, failure);
  const bool absent = failure == std::errc::no_such_file_or_directory;
  const std::string message = failure && !absent ? failure.message() : "";
  if (std::exchange(last_failure_, message) != message && !message.empty()) {
    spdlog::warn("couldn't remove all of {}: {}", aside(parts_.state), message);
  }
  return count > 0;
}

void JobRetention::look(Nanoseconds wall) {
  std::map<std::string, std::vector<std::string>> directories;
  for (const std::string& path : scratch_paths(parts_.state)) directories[job_of(path)].push_back(path);
  for (auto& [job, paths] : directories) {
    if (is_over(job, paths, wall)) due_.emplace_back(job, std::move(paths));
  }
}

bool JobRetention::is_over(const std::string& job, const std::vector<std::string>& directories,
                           Nanoseconds wall) const {
  if (!unfinished_ || unfinished_->contains(job) || parts_.is_active(job)) return false;
  return std::ranges::all_of(
      directories, [&](const std::string& path) { return wall.count() - last_change(path) > parts_.kept_for.count(); });
}

// It may have come back since the look.
void JobRetention::take_next(Nanoseconds wall) {
  const auto [job, directories] = std::move(due_.back());
  due_.pop_back();
  if (is_over(job, directories, wall) && !move_aside(job, directories)) due_.clear();
}

bool JobRetention::move_aside(const std::string& job, const std::vector<std::string>& directories) {
  const Status forgotten = parts_.forget(job);
  const Status made = forgotten.ok() ? make_directories(aside(parts_.state)) : forgotten;
  if (!made.ok()) {
    spdlog::warn("what job {} left here is kept a while longer: {}", job, made.error().message);
    return false;
  }
  for (const std::string& directory : directories) {
    std::error_code failure;
    fs::rename(directory, aside(parts_.state) + "/" + fs::path(directory).filename().string(), failure);
    if (!failure) continue;
    spdlog::warn("couldn't move {} aside: {}", directory, failure.message());
    return false;
  }
  ++removed_;
  spdlog::info("job {} has not run here for long: what it left is removed", job);
  return true;
}

}  // namespace trimtab::agent
