#include "power_cut_disk.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/check.hpp"
#include "power_cut_vfs.hpp"
#include "seeded_runs.hpp"

namespace trimtab::test {

namespace {

constexpr std::size_t kSector = 512;
constexpr std::size_t kPage = 4096;  // what the system keeps of a file, and writes, as one

std::vector<PowerCutDisk*>& disks() {
  static std::vector<PowerCutDisk*> all;
  return all;
}

}  // namespace

PowerCutDisk::PowerCutDisk(std::string directory) : directory_(std::move(directory)), names_(1) {
  use_power_cut_vfs();
  disks().push_back(this);
}

PowerCutDisk::~PowerCutDisk() {
  std::erase(disks(), this);
}

PowerCutDisk* PowerCutDisk::of(const std::string& path) {
  const auto found = std::ranges::find_if(disks(), [&](PowerCutDisk* disk) {
    return path == disk->directory_ || path.starts_with(disk->directory_ + "/");
  });
  return found == disks().end() ? nullptr : *found;
}

void PowerCutDisk::fill_after(std::uint64_t changes, std::uint64_t count) {
  full_ = {changes_ + changes, changes_ + changes + count};
}

void PowerCutDisk::fail_syncs_after(std::uint64_t changes, std::uint64_t count) {
  failing_ = {changes_ + changes, changes_ + changes + count};
}

PowerCutDisk::Outcome PowerCutDisk::begin_change(bool needs_room) {
  if (cut_) return Outcome::kCut;
  const std::uint64_t now = changes_++;
  if (needs_room && full_.has(now)) {
    met("write without room");
    return Outcome::kFull;
  }
  cut_ = now >= cut_at_;
  return cut_ ? Outcome::kCut : Outcome::kDone;
}

PowerCutDisk::Content& PowerCutDisk::content(const std::string& path) {
  const auto found = names_.back().find(path);
  TRIMTAB_ASSERT(found != names_.back().end(), "a file is created before it is written");
  return *found->second;
}

// The change in whose midst the power goes may have reached the disk in part.
PowerCutDisk::Outcome PowerCutDisk::write(const std::string& path, std::int64_t offset, std::string bytes) {
  const bool was_cut = cut_;
  const Outcome outcome = begin_change(true);
  if (was_cut || outcome == Outcome::kFull) return outcome;
  Content& written = content(path);
  const auto first = static_cast<std::size_t>(offset) / kPage;
  const auto last = (static_cast<std::size_t>(offset) + std::max<std::size_t>(bytes.size(), 1) - 1) / kPage;
  for (Change& change : written.unsynced) {
    const std::size_t page = static_cast<std::size_t>(change.offset) / kPage;
    if (page >= first && page <= last) change.stranded = false;
  }
  written.unsynced.push_back({offset, std::move(bytes)});
  return outcome;
}

PowerCutDisk::Outcome PowerCutDisk::truncate(const std::string& path, std::int64_t size) {
  const bool was_cut = cut_;
  const Outcome outcome = begin_change(false);
  if (was_cut) return outcome;
  content(path).unsynced.push_back({size, "", /*truncates=*/true});
  return outcome;
}

PowerCutDisk::Outcome PowerCutDisk::sync(const std::string& path, bool and_directory) {
  const Outcome outcome = begin_change(false);
  if (outcome != Outcome::kDone) return outcome;
  Content& synced = content(path);
  if (failing_.has(changes_ - 1)) {
    met("failed sync");
    strand(synced);
    return Outcome::kFailed;
  }
  sync_rest(synced);
  return and_directory ? sync_directory() : outcome;
}

// Page by page, because pages are what is written anew.
void PowerCutDisk::strand(Content& content) {
  std::vector<Change> all;
  for (Change& change : content.unsynced) {
    if (change.truncates || change.stranded) {
      all.push_back(std::move(change));
      continue;
    }
    for (std::size_t begin = 0; begin < change.bytes.size();) {
      const std::size_t at = static_cast<std::size_t>(change.offset) + begin;
      const std::size_t length = std::min(kPage - at % kPage, change.bytes.size() - begin);
      all.push_back({static_cast<std::int64_t>(at), change.bytes.substr(begin, length), false, true});
      begin += length;
    }
  }
  content.unsynced = std::move(all);
}

void PowerCutDisk::sync_rest(Content& content) {
  std::vector<Change> stranded;
  for (Change& change : content.unsynced) {
    if (change.stranded) {
      stranded.push_back(std::move(change));
      continue;
    }
    apply(change, content.safe);
    if (!change.truncates) continue;
    for (Change& piece : stranded) {
      const std::int64_t left = std::max<std::int64_t>(0, change.offset - piece.offset);
      if (static_cast<std::int64_t>(piece.bytes.size()) > left) piece.bytes.resize(static_cast<std::size_t>(left));
    }
    std::erase_if(stranded, [](const Change& piece) { return piece.bytes.empty(); });
  }
  content.unsynced = std::move(stranded);
}

PowerCutDisk::Outcome PowerCutDisk::sync_directory() {
  const Outcome outcome = begin_change(false);
  if (outcome == Outcome::kDone && failing_.has(changes_ - 1)) return Outcome::kFailed;
  if (outcome == Outcome::kDone) names_.erase(names_.begin(), names_.end() - 1);
  return outcome;
}

PowerCutDisk::Outcome PowerCutDisk::create(const std::string& path) {
  const bool was_cut = cut_;
  const Outcome outcome = begin_change(true);
  if (was_cut || outcome == Outcome::kFull) return outcome;
  names_.push_back(names_.back());
  names_.back()[path] = std::make_shared<Content>();
  return outcome;
}

PowerCutDisk::Outcome PowerCutDisk::remove(const std::string& path, bool and_sync_directory) {
  const bool was_cut = cut_;
  const Outcome outcome = begin_change(false);
  if (was_cut) return outcome;
  names_.push_back(names_.back());
  names_.back().erase(path);
  return outcome == Outcome::kDone && and_sync_directory ? sync_directory() : outcome;
}

PowerCutDisk::Outcome PowerCutDisk::rename(const std::string& from, const std::string& to) {
  const bool was_cut = cut_;
  const Outcome outcome = begin_change(true);
  if (was_cut || outcome == Outcome::kFull) return outcome;
  names_.push_back(names_.back());
  auto moved = names_.back().extract(from);
  TRIMTAB_ASSERT(!moved.empty(), "a file that is renamed exists");
  names_.back()[to] = std::move(moved.mapped());
  return outcome;
}

void PowerCutDisk::apply(const Change& change, std::string& bytes) {
  const auto offset = static_cast<std::size_t>(change.offset);
  if (change.truncates) return bytes.resize(offset, '\0');
  if (bytes.size() < offset + change.bytes.size()) bytes.resize(offset + change.bytes.size(), '\0');
  bytes.replace(offset, change.bytes.size(), change.bytes);
}

void PowerCutDisk::apply_torn(const Change& change, std::string& bytes, Random& random) {
  if (change.truncates) return;
  for (std::size_t begin = 0; begin < change.bytes.size();) {
    const std::size_t at = static_cast<std::size_t>(change.offset) + begin;
    const std::size_t length = std::min(kSector - at % kSector, change.bytes.size() - begin);
    if (random.below(2) == 0) apply({static_cast<std::int64_t>(at), change.bytes.substr(begin, length)}, bytes);
    begin += length;
  }
}

std::string PowerCutDisk::survivor(const Content& content, Random& random) {
  enum { kAll, kNone, kTornEnd, kAny, kFates };
  const auto fate = random.below(kFates);
  std::string bytes = content.safe;
  if (fate == kNone) return bytes;
  const std::size_t whole = fate == kTornEnd ? random.below(content.unsynced.size() + 1) : content.unsynced.size();
  for (std::size_t i = 0; i < whole; ++i) {
    const std::uint64_t lot = fate == kAny ? random.below(3) : 0;
    if (lot == 0) apply(content.unsynced[i], bytes);
    if (lot == 1) apply_torn(content.unsynced[i], bytes, random);
  }
  if (whole < content.unsynced.size()) apply_torn(content.unsynced[whole], bytes, random);
  return bytes;
}

void PowerCutDisk::come_up(Random& random, Loss loss) {
  TRIMTAB_ASSERT(open_ == 0, "a machine comes up with no file open");
  met(loss == Loss::kUnsynced ? "power cut" : "killed process");
  if (loss == Loss::kUnsynced) lose_unsynced(random);
  lay_out();
  cut_ = false;
  calm();
}

void PowerCutDisk::lay_out() const {
  // Nothing else of the directory outlives a start, but what is written once and never again: the index of a
  // write-ahead log is shared memory.
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".lock") && !path.ends_with(".first-page")) std::filesystem::remove(entry.path());
  }
  for (const auto& [path, bytes] : copy(directory_)) std::ofstream(path, std::ios::binary) << bytes;
}

PowerCutDisk::Copy PowerCutDisk::copy(const std::string& prefix) const {
  Copy files;
  for (const auto& [path, content] : names_.back()) {
    if (!path.starts_with(prefix)) continue;
    std::string& bytes = files[path] = content->safe;
    for (const Change& change : content->unsynced) apply(change, bytes);
  }
  return files;
}

void PowerCutDisk::set_back(const std::string& prefix, const Copy& copy) {
  TRIMTAB_ASSERT(open_ == 0, "a disk is set back with no file open");
  Names names = names_.back();
  std::erase_if(names, [&](const auto& one) { return one.first.starts_with(prefix); });
  for (const auto& [path, bytes] : copy) names[path] = std::make_shared<Content>(Content{bytes, {}});
  names_.assign(1, std::move(names));
  lay_out();
}

void PowerCutDisk::lose_unsynced(Random& random) {
  Names found = names_[random.below(names_.size())];
  std::map<const Content*, std::shared_ptr<Content>> fresh;
  for (auto& [path, content] : found) {
    auto& now = fresh[content.get()];
    if (!now) now = std::make_shared<Content>(Content{survivor(*content, random), {}});
    content = now;
  }
  names_.assign(1, std::move(found));
}

}  // namespace trimtab::test
