#include "ranks/rank_marks.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "commands/scratch.hpp"

namespace trimtab::agent {

namespace {

constexpr const char* kEnd = ".process";

// Of one that was copied they differ.
struct Place {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const Place&) const = default;
};

Place place_of(const std::string& directory) {
  struct stat found {};
  return ::stat(directory.c_str(), &found) == 0 ? Place{found.st_dev, found.st_ino} : Place{};
}

// What another user has put there tells nothing.
bool is_own(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == ::geteuid();
}

std::string path_of(const std::string& state, const RankIdentity& id) {
  return Scratch(state, id.job, id.variant).path() + "/rank-" + std::to_string(id.rank) + kEnd;
}

}  // namespace

Status mark_rank(const std::string& state, const LedgerRank& rank) {
  const std::string path = path_of(state, rank.id);
  const Place place = place_of(std::filesystem::path(path).parent_path().string());
  std::ostringstream text;
  text << place.device << ' ' << place.inode << ' ' << rank.id.rank << ' ' << rank.launch << ' ' << rank.epoch << ' '
       << rank.pid << ' ' << rank.start_time << '\n';
  const Status written = write_file(path, text.str());
  if (written.ok()) return {};
  return unavailable(written.error().message + ": the next agent would not find the rank by it");
}

void unmark_rank(const std::string& state, const RankIdentity& id) {
  std::remove(path_of(state, id).c_str());
}

std::vector<LedgerRank> marked_ranks(const std::string& state) {
  std::vector<LedgerRank> ranks;
  for (const std::string& path : scratch_paths(state)) {
    const std::string name = std::filesystem::path(path).filename().string();
    const std::string job = job_of_scratch(path);
    const Place here = place_of(path);
    std::error_code absent;
    for (const auto& entry : std::filesystem::directory_iterator(path, absent)) {
      if (!entry.path().native().ends_with(kEnd)) continue;
      const auto text = read_file(entry.path());
      if (!text.ok() || !is_own(entry.path())) continue;
      std::istringstream file(*text);
      Place place;
      LedgerRank rank;
      rank.id.job = job;
      rank.id.variant = name.substr(std::min(name.size(), job.size() + 1));
      file >> place.device >> place.inode >> rank.id.rank >> rank.launch >> rank.epoch >> rank.pid >> rank.start_time;
      if (file && place == here) ranks.push_back(rank);
    }
  }
  return ranks;
}

}  // namespace trimtab::agent
