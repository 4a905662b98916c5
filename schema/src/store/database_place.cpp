#include "store/database_place.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "store/file_place.hpp"
#include "store/first_page.hpp"
#include "store/page_bytes.hpp"

namespace trimtab {

namespace {

std::string directory_of(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

bool has_content(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && status.st_size > 0;
}

Status check_directory(const std::string& path, const std::string& what) {
  const std::string directory = directory_of(path);
  if (access(directory.c_str(), W_OK | X_OK) == 0) return {};
  const std::string reason = std::strerror(errno);
  return unavailable("cannot write " + what + " " + path + ": its directory " + directory +
                     " must take new files, but: " + reason +
                     ". Create it or change its permissions, or give another path");
}

Status check_existing(const std::string& path, DatabaseMode mode, const std::string& what) {
  const int wanted = mode == DatabaseMode::kReadOnly ? R_OK : R_OK | W_OK;
  if (access(path.c_str(), wanted) == 0) return {};
  const std::string reason = std::strerror(errno);
  return unavailable("cannot open " + what + " " + path + ": it must be " +
                     (mode == DatabaseMode::kReadOnly ? "readable" : "readable and writable") + ", but: " + reason +
                     ". Change its permissions, or give another path");
}

struct OpenFiles {
  std::mutex mutex;
  std::multiset<std::string> paths;
};

OpenFiles& open_files() {
  static OpenFiles all;
  return all;
}

// The same for every way to write a path.
std::string named(const std::string& path) {
  std::error_code failure;
  const auto name = std::filesystem::weakly_canonical(path, failure);
  return failure ? path : name.string();
}

// A hot journal means that the header may be half written; SQLite must repair it before anybody can tell whose it is.
Status check_header(const std::string& path, const Migrations& migrations) {
  if (has_content(path + "-journal") || OpenFile::is_open(path)) return {};
  std::string header(kFileHead, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(header.data(), kFileHead);
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  const bool whole = file.gcount() == static_cast<std::streamsize>(kFileHead);
  if (!whole || !header.starts_with(kMagic)) {
    return foreign_file(path, migrations, "the file is not an SQLite database");
  }
  if (number_at(header, kApplicationId) == migrations.application_id) return {};
  return foreign_file(path, migrations, "the SQLite file belongs to another application");
}

// SQLite opens these without looking what they are, and would wait for a pipe's other end.
Status check_beside(const std::string& path) {
  for (const char* end : {"-wal", "-shm", "-journal"}) {
    const std::string beside = named(path) + end;
    struct stat status {};
    if (lstat(beside.c_str(), &status) != 0 || S_ISREG(status.st_mode)) continue;
    return unavailable(beside + " must be a regular file, as SQLite makes it beside a database, but it is a pipe, a " +
                       "link or a device; nothing was changed. Look at who made it, and remove it");
  }
  return {};
}

// Together how long the kernel may take to close the files of a process that was killed: ten seconds.
constexpr int kTries = 500;
constexpr std::chrono::milliseconds kPause{20};

// Digits; empty where the file does not say.
std::string owner_of(int file) {
  std::array<char, 32> text{};
  const ssize_t length = pread(file, text.data(), text.size() - 1, 0);
  const std::string pid(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  return pid.substr(0, pid.find_first_not_of("0123456789"));
}

// Has it ended, or is it about to by a SIGKILL? proc(5): the state of the main thread, and signals as masks in
// hexadecimal. The main thread may be gone while another one still holds the process's files.
bool is_ending(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  if (!status) return true;
  constexpr unsigned long long kKillMask = 1ULL << (SIGKILL - 1);
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("State:\tZ") || line.starts_with("State:\tX")) return true;
    const bool pending = line.starts_with("SigPnd:") || line.starts_with("ShdPnd:");
    if (pending && (std::strtoull(line.c_str() + line.find('\t'), nullptr, 16) & kKillMask) != 0) return true;
  }
  return false;
}

// Errno of the last try; 0 = locked. An owner that is ending is waited for.
int lock_file(int file) {
  for (int tries = 0;; ++tries) {
    if (flock(file, LOCK_EX | LOCK_NB) == 0) return 0;
    const int failure = errno;
    if (failure == EINTR) continue;
    if (failure != EWOULDBLOCK || tries == kTries) return failure;
    if (const std::string pid = owner_of(file); pid.empty() || !is_ending(pid)) return failure;
    std::this_thread::sleep_for(kPause);
  }
}

// For the message that a second owner gets; the lock holds without it, so a full disk is no reason to fail. Nothing is
// written into what has another name, too.
void write_pid(int file) {
  struct stat found {};
  if (fstat(file, &found) != 0 || found.st_nlink > 1) return;
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(file, 0) == 0 && pwrite(file, pid.data(), pid.size(), 0) < 0) errno = 0;
}

}  // namespace

OpenFile::OpenFile(const std::string& path) : path_(named(path)) {
  const std::lock_guard guard(open_files().mutex);
  open_files().paths.insert(path_);
}

OpenFile::~OpenFile() {
  const std::lock_guard guard(open_files().mutex);
  open_files().paths.erase(open_files().paths.find(path_));
}

bool OpenFile::is_open(const std::string& path) {
  const std::lock_guard guard(open_files().mutex);
  return open_files().paths.contains(named(path));
}

Error foreign_file(const std::string& path, const Migrations& migrations, const std::string& found) {
  if (has_first_page(path, migrations.application_id)) {
    return bad_input(path + " was a " + migrations.kind + ", and is damaged or another file now: " + found +
                     "; nothing was changed. Put a backup in its place");
  }
  return bad_input(path + " is not a " + migrations.kind + ": " + found + "; nothing was changed. Give another path");
}

Status check_place(const std::string& path, DatabaseMode mode, const Migrations& migrations) {
  const std::string what = std::string("the ") + migrations.kind;
  if (path == ":memory:" || path.empty()) {
    return bad_input(what + " must be a file, and " + (path.empty() ? "an empty name" : path) +
                     " is none. Give a path");
  }
  TRIMTAB_TRY_STATUS(check_beside(path));
  struct stat status {};
  const bool exists = stat(path.c_str(), &status) == 0;
  if (!exists && mode != DatabaseMode::kCreate) {
    return unavailable(std::string("there is no ") + migrations.kind + " at " + path + ": " + std::strerror(errno));
  }
  if (mode != DatabaseMode::kReadOnly) TRIMTAB_TRY_STATUS(check_directory(path, what));
  if (!exists) return {};
  if (!S_ISREG(status.st_mode)) return foreign_file(path, migrations, "it is not a regular file");
  TRIMTAB_TRY_STATUS(check_existing(path, mode, what));
  if (status.st_size > 0) return check_header(path, migrations);
  if (has_content(path + "-journal") ||
      (mode == DatabaseMode::kCreate && !has_first_page(path, migrations.application_id)))
    return {};
  return foreign_file(path, migrations, "the file is empty (to begin with nothing, remove it)");
}

bool is_immutable(const std::string& path) {
  return access(directory_of(path).c_str(), W_OK) != 0 && !has_content(path + "-wal");
}

Result<OwnerLock> OwnerLock::acquire(const std::string& database_path) {
  const std::string path = database_path + ".lock";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (file < 0 && errno == ELOOP) {
    return bad_input(path + " is a link, and nothing is written through it. Remove it, then try again");
  }
  if (file < 0) return unavailable("cannot create the lock file " + path + ": " + std::strerror(errno));
  OwnerLock lock(file);
  const int failure = lock_file(file);
  if (failure == 0) {
    write_pid(file);
    return lock;
  }
  if (failure != EWOULDBLOCK) return unavailable("cannot lock " + path + ": " + std::strerror(failure));
  const std::string pid = owner_of(file);
  return unavailable(database_path + " belongs to " + (pid.empty() ? "another process" : "process " + pid) +
                     ", which still runs. Stop it first, or give this one a state directory of its own");
}

OwnerLock::OwnerLock(OwnerLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

OwnerLock& OwnerLock::operator=(OwnerLock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

Status OwnerLock::renew(const std::string& database_path) {
  if (file_ < 0) return {};
  struct stat held {};
  const auto there = identity_of(database_path + ".lock");
  if (fstat(file_, &held) == 0 && there == FileIdentity{held.st_dev, held.st_ino}) return {};
  TRIMTAB_TRY(*this, acquire(database_path));
  return {};
}

OwnerLock::~OwnerLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace trimtab
