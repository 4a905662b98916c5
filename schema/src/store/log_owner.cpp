#include "store/log_owner.hpp"

#include <fcntl.h>
#include <sqlite3.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fstream>
#include <optional>
#include <vector>

#include <SQLiteCpp/Exception.h>

#include "base/descriptor.hpp"
#include "store/confirmed_log.hpp"
#include "store/database_place.hpp"
#include "store/log_checksum.hpp"
#include "store/page_bytes.hpp"

namespace trimtab {

namespace {

struct Mark {
  std::uint32_t changes = 0;
  std::uint32_t tables = 0;   // counts how often they were changed
  std::uint32_t version = 0;  // of ours
  bool operator==(const Mark&) const = default;
};

Mark mark_in(std::string_view first_page) {
  return {number_at(first_page, kChangeCounter), number_at(first_page, kSchemaCookie),
          number_at(first_page, kUserVersion)};
}

// What SQLite would read into the file, and no more.
struct FoundLog {
  bool is_there = false;
  std::string salts = {};  // empty: it does not begin as a log does
  std::uint32_t frames = 0;
  std::vector<Mark> marks = {};  // of the first pages in it, in their order
};

bool read_some(std::ifstream& file, std::string& bytes) {
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file.gcount() == static_cast<std::streamsize>(bytes.size());
}

FoundLog find_log(const std::string& path) {
  std::ifstream log(path, std::ios::binary);
  FoundLog found{log.is_open()};
  std::string head(kLogHead, '\0');
  if (!read_some(log, head) || !is_log(head)) return found;
  const std::uint32_t page_size = number_at(head, 8);
  LogChecksum sum(head);
  if (!std::has_single_bit(page_size) || page_size < 512 || page_size > 65536 || !sum.is_at(head, kFrameHead))
    return found;
  found.salts = head.substr(kLogSalts, kSalts);
  std::size_t committed = 0;
  std::uint32_t frames = 0;
  for (std::string frame(kFrameHead + page_size, '\0'); read_some(log, frame);) {
    const std::string_view bytes = frame;
    sum.add_frame(bytes);
    if (bytes.substr(8, kSalts) != found.salts || !sum.is_at(bytes, 16)) break;
    ++frames;
    if (number_at(bytes, 0) == 1) found.marks.push_back(mark_in(bytes.substr(kFrameHead)));
    if (number_at(bytes, 4) == 0) continue;
    committed = found.marks.size();
    found.frames = frames;
  }
  found.marks.resize(committed);
  return found;
}

// Who has it open in WAL mode holds a lock on these bytes. Drops this process's own locks on the file.
bool is_in_use(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = 0x40000002;
  lock.l_len = 510;
  if (!file) return errno != ENOENT;
  return ::fcntl(file.get(), F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

// What the file had when the log began, or has got of it since. The log's first page may be that of an upgrade, or of
// who packs a file anew, which changes the number of its tables by one.
bool belongs(const Mark& file, const std::vector<Mark>& log) {
  const Mark& first = log.front();
  const bool before = file.changes == first.changes - 1 || file.changes == first.changes;
  const bool same_tables =
      file.tables == first.tables || file.tables == first.tables - 1 || file.version < first.version;
  return (before && same_tables) || std::ranges::find(log, file) != log.end();
}

// Of a log that was begun anew since, everything had been copied into the file, and so had it where no log is. One that
// is there and cannot be read at all was copied only if the file counts as far as it did.
std::string lost_of(const FoundLog& log, const ConfirmedLog& confirmed, const Mark& file) {
  const bool counts_as_far = static_cast<std::int32_t>(file.changes - confirmed.changes) >= 0;
  const bool is_begun_anew = !log.salts.empty() && log.salts != confirmed.salts;
  if (!log.is_there || is_begun_anew || log.frames >= confirmed.frames) return "";
  if (log.salts.empty() && counts_as_far) return "";
  return "its log was cut or is damaged: of " + std::to_string(confirmed.frames) +
         " pages in it that were confirmed it has " + std::to_string(log.frames) +
         " that can be read, and what was stored after those is missing";
}

}  // namespace

Result<std::string> check_log(const std::string& path) {
  const std::string name = path + "-wal";
  if (OpenFile::is_open(path) || is_in_use(path)) return std::string();
  const auto confirmed = confirmed_log(path);  // before the log, which somebody may write from now on
  const FoundLog log = find_log(name);
  std::ifstream file(path, std::ios::binary);
  std::string head(kFileHead, '\0');
  const bool has_file = read_some(file, head);
  if (!has_file && !log.marks.empty()) {
    return bad_input(path + " is gone, or was cut to nothing, beside its log " + name +
                     "; nothing was changed. Put the file back, or a backup after moving the log away. To begin with " +
                     "nothing, move the log away");
  }
  if (!log.marks.empty() && !belongs(mark_in(head), log.marks)) {
    return bad_input(
        name + " is the log of another file than " + path + ", which was put in that one's place: what " +
        "the log holds would be read into it; nothing was changed. To go on with the file as it is, move " +
        "the log away. To go on with what was there before, put the other file back");
  }
  if (!has_file || !confirmed || is_in_use(path)) return std::string();
  return lost_of(log, *confirmed, mark_in(head));
}

void mark_log(SQLite::Database& connection) {
  try {
    sqlite3_db_release_memory(connection.getHandle());  // it counts on from the first page as it was last read
    const int version = connection.execAndGet("PRAGMA user_version").getInt();
    connection.exec("PRAGMA user_version = " + std::to_string(version));
  } catch (const SQLite::Exception&) {
    return;
  }
}

}  // namespace trimtab
