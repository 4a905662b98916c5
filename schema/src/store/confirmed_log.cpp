#include "store/confirmed_log.hpp"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/regular_file.hpp"
#include "schema/hash64.hpp"
#include "store/page_bytes.hpp"

namespace trimtab {

namespace {

constexpr std::size_t kFrames = kSalts;
constexpr std::size_t kChanges = kFrames + 4;
constexpr std::size_t kCopied = kChanges + 4;
constexpr std::size_t kHash = kCopied + 4;
constexpr std::size_t kSize = kHash + 16;

bool is_linked(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 &&
         (S_ISLNK(found.st_mode) || (S_ISREG(found.st_mode) && found.st_nlink > 1));
}

}  // namespace

std::string confirmed_path(const std::string& database) {
  return database + "-confirmed";
}

std::optional<ConfirmedLog> confirmed_log(const std::string& database) {
  const auto text = read_regular_file(confirmed_path(database), kSize, /*follows=*/false);
  if (!text.ok() || text->size() != kSize) return std::nullopt;
  if (text->substr(kHash) != hash64_hex(text->substr(0, kHash))) return std::nullopt;
  return ConfirmedLog{text->substr(0, kSalts), number_at(*text, kFrames), number_at(*text, kChanges),
                      number_at(*text, kCopied)};
}

void forget_confirmed(const std::string& database) {
  if (confirmed_log(database)) ConfirmedFile(database, /*creates=*/false).forget();
}

// By SQLite's own way to files, as a log is opened: such a one has the database's rights, and follows no link.
ConfirmedFile::ConfirmedFile(const std::string& database, bool creates) : path_(confirmed_path(database)) {
  sqlite3_vfs* const vfs = sqlite3_vfs_find(nullptr);
  file_ = std::make_unique<char[]>(static_cast<std::size_t>(vfs->szOsFile));
  if (is_linked(path_)) ::unlink(path_.c_str());
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_WAL | (creates ? SQLITE_OPEN_CREATE : 0);
  int opened = 0;
  if (vfs->xOpen(vfs, path_.c_str(), file(), flags, &opened) != SQLITE_OK) file_.reset();
  if (file_ == nullptr) return;
  const bool writes = (opened & SQLITE_OPEN_READWRITE) != 0 && file()->pMethods->xTruncate(file(), kSize) == SQLITE_OK;
  if (!writes) {
    file()->pMethods->xClose(file());
    file_.reset();
  }
  place_ = identity_of(path_);
  written_ = confirmed_log(database).value_or(ConfirmedLog());
}

ConfirmedFile::~ConfirmedFile() {
  if (file_ != nullptr) file()->pMethods->xClose(file());
}

bool ConfirmedFile::is_in_place() const {
  return file_ != nullptr && place_ && identity_of(path_) == place_;
}

sqlite3_file* ConfirmedFile::file() const {
  return reinterpret_cast<sqlite3_file*>(file_.get());
}

bool ConfirmedFile::write(ConfirmedLog log) {
  if (file_ == nullptr) return false;
  if (log.salts == written_.salts) log.copied = std::max(log.copied, written_.copied);
  if (log == written_) return true;
  std::string text = log.salts + std::string(kHash - kSalts, '\0');
  put_number(text, kFrames, log.frames);
  put_number(text, kChanges, log.changes);
  put_number(text, kCopied, log.copied);
  text += hash64_hex(text);
  if (file()->pMethods->xWrite(file(), text.data(), static_cast<int>(text.size()), 0) != SQLITE_OK) return false;
  written_ = log;
  return true;
}

void ConfirmedFile::forget() {
  const std::string nothing(kSize, '\0');
  if (file_ == nullptr || file()->pMethods->xWrite(file(), nothing.data(), static_cast<int>(kSize), 0) != SQLITE_OK)
    return;
  file()->pMethods->xSync(file(), SQLITE_SYNC_NORMAL);
}

}  // namespace trimtab
