#include "files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>

#include "base/units.hpp"

namespace trimtab::cli {

namespace {

constexpr int kMostLinks = 40;                // that Linux follows
constexpr Bytes kMostRead = Bytes{64} << 20;  // as documents may have; a device or a pipe may never end

constexpr Nanoseconds kLockPatience = std::chrono::seconds(10);
constexpr Nanoseconds kLockPoll = std::chrono::milliseconds(20);

bool is_trusted(uid_t user) {
  return user == 0 || user == ::geteuid();
}

// Of a database that is read: what SQLite and Trimtab keep beside it.
bool is_beside(const std::string& out, const std::string& input) {
  std::error_code failure;
  const auto written = std::filesystem::weakly_canonical(out, failure).string();
  const auto read = std::filesystem::weakly_canonical(input, failure).string();
  for (const char* end : {"-wal", "-shm", "-journal", "-confirmed", ".first-page", ".lock"}) {
    if (!written.empty() && written == read + end) return true;
  }
  return false;
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure)) return bad_input(path + ": expected a file, but it is a directory");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return bad_input("cannot read " + path + ": " + std::strerror(errno));
  std::string text;
  std::string piece(std::size_t{1} << 20, '\0');
  while (stream.read(piece.data(), static_cast<std::streamsize>(piece.size())) || stream.gcount() > 0) {
    text.append(piece, 0, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > kMostRead) return bad_input(path + ": expected a file of at most " + format_bytes(kMostRead));
  }
  if (stream.bad()) return bad_input("cannot read " + path + ": " + std::strerror(errno));
  return text;
}

std::function<std::optional<std::string>(const std::string& path)> files_beside(const std::string& script) {
  return [folder = std::filesystem::path(script).parent_path()](const std::string& path) -> std::optional<std::string> {
    const std::filesystem::path file = folder / path;
    std::error_code failure;
    if (!std::filesystem::is_regular_file(file, failure)) return std::nullopt;
    auto text = read_file(file.string());
    return text.ok() ? std::optional(std::move(*text)) : std::nullopt;
  };
}

Status check_apart(const std::string& flag, const std::string& out, const std::vector<std::string>& inputs) {
  std::error_code failure;
  for (const std::string& input : inputs) {
    if (!std::filesystem::is_regular_file(input, failure)) continue;
    if (is_beside(out, input)) {
      return bad_input(flag + ": " + out + " belongs to the database " + input +
                       ", which is read here and could be lost; name another");
    }
    if (!std::filesystem::equivalent(out, input, failure)) continue;
    return bad_input(flag + ": " + out + " is the file " + input +
                     ", which is read here and would be lost; name another");
  }
  return {};
}

std::optional<std::string> replaced_name(const std::string& path) {
  std::string name = path;
  for (int links = 0; links < kMostLinks; ++links) {
    struct stat found {};
    const bool is_missing = ::lstat(name.c_str(), &found) != 0;
    if (is_missing || S_ISREG(found.st_mode)) return links == 0 ? std::optional(path) : std::nullopt;
    if (!S_ISLNK(found.st_mode)) return std::nullopt;
    if (!is_trusted(found.st_uid)) return name;
    std::error_code failure;
    const std::filesystem::path next = std::filesystem::read_symlink(name, failure);
    if (failure) return std::nullopt;
    name = (std::filesystem::path(name).parent_path() / next).string();
  }
  return std::nullopt;  // a circle: opening it fails
}

Status write_file(const std::string& path, std::string_view content) {
  if (const auto name = replaced_name(path)) return replace_file(*name, content);
  std::ofstream there(path, std::ios::binary | std::ios::trunc);
  there.write(content.data(), static_cast<std::streamsize>(content.size()));
  there.close();
  if (there) return {};
  return unavailable("cannot write " + path + ": " + std::strerror(errno));
}

Status write_private_file(const std::string& path, std::string_view content) {
  return write_durably(path, content, 0600);
}

bool take_lock(const Descriptor& file, const Clock& clock, std::optional<Nanoseconds> patience) {
  if (!patience) {
    while (::flock(file.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
    return true;
  }
  const Nanoseconds end = clock.monotonic() + *patience;
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR && errno != EWOULDBLOCK) return true;  // a file system without locks
    if (clock.monotonic() >= end) return false;
    std::this_thread::sleep_for(kLockPoll);
  }
  return true;
}

Result<Descriptor> lock_directory(const std::string& directory) {
  Descriptor lock(::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.get() < 0) return unavailable("cannot open the directory " + directory + ": " + std::strerror(errno));
  if (take_lock(lock, SystemClock(), kLockPatience)) return lock;
  return unavailable("another command has been changing files in " + directory +
                     " for ten seconds (a lock on it is held): try again when it has ended");
}

Status change_shared_file(const std::string& path, mode_t mode, const ChangeText& change) {
  TRIMTAB_TRY(const std::string file, followed_name(path, LinksOf::kRootAndUser));
  TRIMTAB_TRY(const Descriptor lock, lock_directory(std::filesystem::path(file).parent_path().string()));
  struct stat before {};
  const bool was_there = ::stat(file.c_str(), &before) == 0;
  std::string text;
  if (was_there) {
    TRIMTAB_TRY(text, read_file(file));
  }
  TRIMTAB_TRY(const std::string content, change(text));
  if (was_there && content == text) return {};
  const mode_t kept = was_there ? before.st_mode & 0777U : mode;
  TRIMTAB_TRY_STATUS(write_durably(file, content, kept));
  const bool owned = !was_there || ::chown(file.c_str(), before.st_uid, before.st_gid) == 0;
  if (owned && ::chmod(file.c_str(), kept) == 0) return {};
  return unavailable(file +
                     " is written, but its owner and mode could not be kept, so that a daemon may not read it: " +
                     std::strerror(errno));
}

Status make_directories(const std::string& path) {
  std::error_code failure;
  std::filesystem::create_directories(path, failure);
  if (failure) return unavailable("cannot make the directory " + path + ": " + failure.message());
  return {};
}

Status make_writable_directory(const std::string& path) {
  TRIMTAB_TRY_STATUS(make_directories(path));
  const std::string tried = path + "/.trimtab-" + std::to_string(getpid());
  TRIMTAB_TRY_STATUS(replace_file(tried, ""));
  remove_if_there(tried);
  return {};
}

bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

void remove_if_there(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

void Descriptor::reset() {
  if (value_ >= 0) ::close(std::exchange(value_, -1));
}

Result<Descriptor> open_own_file(const std::string& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0640));
  struct stat found {};
  const bool opened = file.get() >= 0 && ::fstat(file.get(), &found) == 0;
  if (opened && S_ISREG(found.st_mode) && is_trusted(found.st_uid)) return file;
  // Of a link, and of a pipe that nobody reads.
  if (!opened && errno != ELOOP && errno != ENXIO) {
    return unavailable("cannot open " + path + ": " + std::strerror(errno));
  }
  return unavailable(path +
                     " must be a plain file of yours, but is a link, a pipe or somebody else's: look at who made "
                     "it, then remove it");
}

Result<std::string> read_own_file(const std::string& path) {
  TRIMTAB_TRY(const Descriptor file, open_own_file(path, O_RDONLY));
  auto text = read_file("/proc/self/fd/" + std::to_string(file.get()));
  return text.ok() ? text : wrap(path, text.error());
}

}  // namespace trimtab::cli
