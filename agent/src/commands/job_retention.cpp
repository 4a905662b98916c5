#include "commands/job_retention.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "commands/scratch.hpp"
#include "schema/state_directory.hpp"

namespace trimtab::agent {

namespace {

namespace fs = std::filesystem;

constexpr Nanoseconds kPeriod = std::chrono::minutes(10);
constexpr int kLooksOfRetention = 8;  // in the time that anything is kept, where that is short
// Of moving a job's directories aside, which waits for the database, in entries looked at.
constexpr std::size_t kMoveCost = 64;

// Where directories wait for their end.
std::string aside(const std::string& state) {
  return state + "/removed-jobs";
}

std::int64_t changed_ns(const struct stat& found) {
  return std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec;
}

}  // namespace

void JobRetention::step(Nanoseconds now, Nanoseconds wall) {
  const bool trusted = trusts_clocks(now, wall);
  if (surroundings_.kept_for.count() == 0) return;
  remove_some(now);
  if (trusted && unfinished_) return look_on(now, wall);
  // What was seen of a job by then may be old when it goes on.
  look_.reset();
  to_look_at_.clear();
}

bool JobRetention::trusts_clocks(Nanoseconds now, Nanoseconds wall) {
  if (const Nanoseconds jump = clocks_.look(now, wall); jump.count() != 0) {
    spdlog::warn("the wall clock has jumped by {} s: until it has been steady for a day, what jobs left is kept",
                 std::chrono::duration_cast<std::chrono::seconds>(jump).count());
  }
  return clocks_.tells(surroundings_.kept_for, now);
}

void JobRetention::remove_some(Nanoseconds now) {
  if (!removal_ && to_remove_.empty() && now >= next_removal_) {
    next_removal_ = now + kPeriod;
    list_aside();
  }
  if (!removal_) {
    if (to_remove_.empty()) return;
    removed_path_ = std::move(to_remove_.back());
    to_remove_.pop_back();
    removal_.emplace(removed_path_);
  }
  if (!removal_->step(kFilesAtOnce)) return;
  say_once(removed_path_, removal_->failure());
  removal_.reset();
}

void JobRetention::list_aside() {
  std::error_code failure;
  auto entry = fs::directory_iterator(aside(surroundings_.state), failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    to_remove_.push_back(entry->path().string());
  }
  const bool absent = failure == std::errc::no_such_file_or_directory;
  say_once(aside(surroundings_.state), failure && !absent ? failure.message() : "");
}

void JobRetention::look_on(Nanoseconds now, Nanoseconds wall) {
  if (!look_ && to_look_at_.empty()) {
    if (now < next_look_) return;
    list_jobs();
  }
  std::size_t entries = kEntriesLookedAt;
  while (entries > 0 && (look_ || !to_look_at_.empty())) {
    if (!look_) {
      auto job = to_look_at_.extract(to_look_at_.begin());
      look_ = std::make_unique<Look>(Look{job.key(), std::move(job.mapped()), 0, wall, 0, {}});
    }
    entries -= std::min(entries, look_on(*look_, entries));
  }
  if (!look_ && to_look_at_.empty()) next_look_ = now + std::min(kPeriod, surroundings_.kept_for / kLooksOfRetention);
}

// What it has cost, in entries looked at. At its end the look is over.
std::size_t JobRetention::look_on(Look& current, std::size_t entries) {
  const auto [cost, is_over] = look_at_some(current, entries);
  if (!is_over) return cost;
  const auto look = std::move(look_);
  const bool old = look->begun.count() - look->latest > surroundings_.kept_for.count();
  if (!old || is_kept(look->job)) return cost;
  if (!move_aside(*look)) to_look_at_.clear();
  return cost + kMoveCost;
}

void JobRetention::list_jobs() {
  for (const std::string& path : scratch_paths(surroundings_.state)) {
    if (const std::string job = job_of_scratch(path); !is_kept(job)) to_look_at_[job].push_back(path);
  }
}

bool JobRetention::is_kept(const std::string& job) const {
  return !unfinished_ || unfinished_->contains(job) || surroundings_.is_active(job);
}

// What a job has cost, and whether that was its end, which is also where one file is young. What stands in a job's
// directory counts, and what stands in directories there, such as a snapshot's files.
std::pair<std::size_t, bool> JobRetention::look_at_some(Look& look, std::size_t entries) const {
  if (!look.walk) {
    look.walk.emplace(look.directories[look.next++], [&look](const std::string&, const struct stat& found) {
      look.latest = std::max(look.latest, changed_ns(found));
      return true;
    });
  }
  const bool walked = look.walk->step(entries);
  const std::size_t cost = look.walk->looked_at();
  if (walked) look.walk.reset();
  const bool young = look.begun.count() - look.latest <= surroundings_.kept_for.count();
  return {cost, young || (walked && look.next == look.directories.size())};
}

Status JobRetention::give_to(const std::string& tenant, const std::string& job, Nanoseconds wall) {
  const Scratch scratch(surroundings_.state, job, "");
  const auto owner = read_file(scratch.tenant());
  if (owner.ok() && *owner == tenant) return {};
  if (owner.ok()) TRIMTAB_TRY_STATUS(take_away(job, wall));
  TRIMTAB_TRY_STATUS(scratch.create());
  return write_file(scratch.tenant(), tenant);
}

// The one last that says whose all are.
Status JobRetention::take_away(const std::string& job, Nanoseconds wall) {
  if (surroundings_.is_active(job)) {
    return unavailable("ranks of another tenant's job " + job +
                       " still run on this node: end them there, or choose another name");
  }
  TRIMTAB_TRY_STATUS(make_ready(job));
  std::vector<std::string> directories = scratch_paths(surroundings_.state);
  std::erase_if(directories, [&](const std::string& path) { return job_of_scratch(path) != job; });
  std::ranges::sort(directories, std::greater());
  for (const std::string& directory : directories) {
    if (move_aside(directory, wall)) continue;
    return unavailable("what another tenant's job " + job + " left in " + directory +
                       " cannot be moved aside: remove it, or choose another name");
  }
  spdlog::info("job {} was another tenant's: what it left is removed", job);
  return {};
}

Status JobRetention::make_ready(const std::string& job) const {
  TRIMTAB_TRY_STATUS(surroundings_.forget(job));
  return make_private_directories(aside(surroundings_.state));
}

bool JobRetention::move_aside(const Look& look) {
  const Status made = make_ready(look.job);
  if (!made.ok()) {
    spdlog::warn("what job {} left here is kept a while longer: {}", look.job, made.error().message);
    return false;
  }
  bool all = true;
  for (const std::string& directory : look.directories) all = move_aside(directory, look.begun) && all;
  if (!all) return true;
  ++removed_;
  spdlog::info("job {} has not run here for long: what it left is removed", look.job);
  return true;
}

// Under a name that an earlier job of this one's cannot have: what that left may be there for ever.
bool JobRetention::move_aside(const std::string& directory, Nanoseconds wall) {
  const std::string place =
      aside(surroundings_.state) + "/" + fs::path(directory).filename().string() + "~" + std::to_string(wall.count());
  const int refused = let_owner_change(directory);
  std::error_code failure(refused, std::generic_category());
  if (refused == 0) fs::rename(directory, place, failure);
  say_once(directory, failure ? "it cannot be moved aside: " + failure.message() : "");
  if (!failure) to_remove_.push_back(place);
  return !failure;
}

// `failure` empty: it is over.
void JobRetention::say_once(const std::string& path, const std::string& failure) {
  if (failure.empty()) {
    said_.erase(path);
  } else if (said_.insert(path).second) {
    spdlog::warn("couldn't remove all of {}: {}. It stays until that is mended, and is tried again", path, failure);
  }
}

}  // namespace trimtab::agent
