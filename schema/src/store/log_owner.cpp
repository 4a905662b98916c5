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
#include "store/log_index.hpp"
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

bool counts_as_far(const Mark& file, std::uint32_t changes) {
  return static_cast<std::int32_t>(file.changes - changes) >= 0;
}

// By what a killed process has left of its memory, unless somebody has opened the file since.
ConfirmedLog left_in_memory(const std::string& path) {
  std::ifstream shared(path + "-shm", std::ios::binary);
  LogIndex index;
  shared.read(reinterpret_cast<char*>(index.words.data()), sizeof index.words);
  if (!shared || !index.is_whole()) return {};
  return {index.salts(), index.frames(), 0, index.is_copied() ? index.frames() : 0};
}

// How many of the log's pages the file has without it. None, if it is an older copy of the file that they were copied
// into.
std::uint32_t copied_of(const FoundLog& log, const ConfirmedLog& confirmed, const ConfirmedLog& left,
                        const Mark& file) {
  const std::string& salts = log.salts.empty() ? confirmed.salts : log.salts;
  std::uint32_t copied = 0;
  for (const ConfirmedLog* one : {&confirmed, &left}) {
    if (one->salts == salts) copied = std::max(copied, one->copied);
  }
  if (!log.marks.empty()) return counts_as_far(file, log.marks.back().changes) ? copied : 0;
  return copied < confirmed.frames || counts_as_far(file, confirmed.changes) ? copied : 0;
}

// Of a log that was begun anew since, everything had been copied into the file, and so had it where no log is. One that
// is there and cannot be read at all was copied, too, if the file counts as far as it did: unless the process was
// killed as it copied, since the first page is copied first.
LogCheck compare(const FoundLog& log, const ConfirmedLog& confirmed, const ConfirmedLog& left, const Mark& file) {
  const bool is_half = left.salts == confirmed.salts && left.copied < left.frames;
  if (!log.is_there || (log.salts.empty() && counts_as_far(file, confirmed.changes) && !is_half)) return {};
  const std::uint32_t copied = copied_of(log, confirmed, left, file);
  const bool is_begun_anew = !log.salts.empty() && log.salts != confirmed.salts;
  const std::uint32_t pages = std::max(is_begun_anew ? 0 : confirmed.frames, copied);
  if (log.frames >= pages) return {};
  std::string lost = "its log was cut or is damaged: of " + std::to_string(pages) +
                     " pages in it that were confirmed it has " + std::to_string(log.frames) + " that can be read";
  const bool is_of_the_past = log.frames < copied;
  if (is_of_the_past) lost += ". The file has " + std::to_string(copied) + " of them, so the log is left out";
  lost += copied == pages ? ". Nothing is missing" : ". What was stored after those is missing";
  return {lost, is_of_the_past};
}

}  // namespace

Result<LogCheck> check_log(const std::string& path) {
  const std::string name = path + "-wal";
  if (OpenFile::is_open(path) || is_in_use(path)) return LogCheck();
  // Before the log, which somebody may write from now on.
  const ConfirmedLog confirmed = confirmed_log(path).value_or(ConfirmedLog());
  const ConfirmedLog left = left_in_memory(path);
  const FoundLog log = find_log(name);
  std::ifstream file(path, std::ios::binary);
  std::string head(kFileHead, '\0');
  const bool has_file = read_some(file, head);
  if (is_in_use(path)) return LogCheck();  // what was read is of several moments
  if (!has_file && !log.marks.empty()) {
    return bad_input(path + " is gone, or was cut to nothing, beside its log " + name +
                     "; nothing was changed. Put the file back, or a backup after moving the log away. To begin with " +
                     "nothing, move the log away");
  }
  const LogCheck check = has_file ? compare(log, confirmed, left, mark_in(head)) : LogCheck();
  if (!check.is_of_the_past && !log.marks.empty() && !belongs(mark_in(head), log.marks)) {
    return bad_input(
        name + " is the log of another file than " + path + ", which was put in that one's place: what " +
        "the log holds would be read into it; nothing was changed. To go on with the file as it is, move " +
        "the log away. To go on with what was there before, put the other file back");
  }
  return check;
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
