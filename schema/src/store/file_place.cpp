#include "store/file_place.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "schema/durable_file.hpp"

namespace trimtab {

namespace {

std::string log_of(const std::string& path) {
  return path + "-wal";
}

bool is_empty(const std::string& path) {
  struct stat seen {};
  return stat(path.c_str(), &seen) == 0 && seen.st_size == 0;
}

std::string aside_of(const std::string& path) {
  // Free of both: what is there of an earlier one may be its log alone.
  const auto is_taken = [](const std::string& name) {
    struct stat found {};
    return ::lstat(name.c_str(), &found) == 0 || ::lstat((name + "-wal").c_str(), &found) == 0;
  };
  std::string aside = path + ".damaged";
  for (int number = 2; is_taken(aside); ++number) aside = path + ".damaged-" + std::to_string(number);
  return aside;
}

}  // namespace

Result<std::string> real_name(const std::string& path, bool is_written) {
  const std::string name = path.starts_with("file:") ? "./" + path : path;
  return followed_name(name, is_written ? LinksOf::kRootAndUser : LinksOf::kAnybody);
}

std::optional<FileIdentity> identity_of(const std::string& path) {
  struct stat seen {};
  if (stat(path.c_str(), &seen) != 0) return std::nullopt;
  return FileIdentity{seen.st_dev, seen.st_ino};
}

FilePlace::FilePlace(const std::string& path)
    : path_(path), file_(identity_of(path)), log_(identity_of(log_of(path))) {}

FilePlace::State FilePlace::look() const {
  const auto file = identity_of(path_);
  if (!file) return State::kRemoved;
  if (file != file_) return State::kReplaced;
  const auto log = identity_of(log_of(path_));
  if (log == log_) return State::kKept;
  return !log || is_empty(log_of(path_)) ? State::kLogRemoved : State::kLogReplaced;
}

void FilePlace::take_log_away() const {
  if (!log_ || identity_of(log_of(path_)) != log_) return;
  for (const char* beside : {"-wal", "-shm"}) std::remove((path_ + beside).c_str());
}

std::string rescued_of(const std::string& path) {
  return path + ".rescued";
}

Status take_rescued(const std::string& path) {
  const std::string rescued = rescued_of(path);
  if (!identity_of(rescued) || identity_of(path)) return {};
  for (const char* beside : {"-wal", "-shm", "-journal", "-confirmed"}) std::remove((path + beside).c_str());
  const std::string directory = std::filesystem::absolute(path).parent_path().string();
  if (std::rename(rescued.c_str(), path.c_str()) == 0 && reaches_disk(directory)) return {};
  return unavailable("cannot rename " + rescued + " to " + path + ": " + std::strerror(errno));
}

Result<std::string> change_places(const std::string& path) {
  const std::string aside = aside_of(path);
  const std::string rescued = rescued_of(path);
  const bool moved = reaches_disk(rescued + ".tmp") && std::rename((rescued + ".tmp").c_str(), rescued.c_str()) == 0 &&
                     std::rename(path.c_str(), aside.c_str()) == 0;
  if (moved) {
    TRIMTAB_TRY_STATUS(take_rescued(path));
    return aside;
  }
  return unavailable(path + " is damaged, and what can be read of it cannot be brought to safety: " +
                     std::strerror(errno) + ". Check the disk and its free space, then try again");
}

Result<std::string> keep_copies(const std::string& path) {
  const std::string aside = aside_of(path);
  std::error_code failure;
  for (const char* end : {"", "-wal"}) {
    if (!failure) std::filesystem::copy_file(path + end, aside + end, failure);
    if (!failure && !reaches_disk(aside + end)) failure = {errno, std::generic_category()};
  }
  if (!failure) return aside;
  for (const char* end : {"", "-wal"}) std::remove((aside + end).c_str());
  return unavailable("the log of " + path + " cannot be read whole, and no copy of both can be kept as " + aside +
                     ": " + failure.message() + ". Check the disk and its free space, then try again");
}

Status remove_log(const std::string& path) {
  for (const char* beside : {"-wal", "-shm"}) std::remove((path + beside).c_str());
  const std::string directory = std::filesystem::absolute(path).parent_path().string();
  if (!identity_of(log_of(path)) && reaches_disk(directory)) return {};
  return unavailable("cannot remove the damaged log of " + path + ": " + std::strerror(errno));
}

}  // namespace trimtab
