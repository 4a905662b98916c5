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
#include "store/database_place.hpp"
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

// Of everything in the log so far, each frame's on top of those before it.
struct Checksum {
  bool big_endian = false;
  std::uint32_t first = 0;
  std::uint32_t second = 0;

  void add(std::string_view bytes) {
    for (std::size_t place = 0; place + 8 <= bytes.size(); place += 8) {
      first += word(bytes, place) + second;
      second += word(bytes, place + 4) + first;
    }
  }
  [[nodiscard]] bool is_at(std::string_view bytes, std::size_t place) const {
    return number_at(bytes, place) == first && number_at(bytes, place + 4) == second;
  }

 private:
  [[nodiscard]] std::uint32_t word(std::string_view bytes, std::size_t place) const {
    const std::uint32_t number = number_at(bytes, place);
    return big_endian ? number : __builtin_bswap32(number);
  }
};

bool read_some(std::ifstream& file, std::string& bytes) {
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file.gcount() == static_cast<std::streamsize>(bytes.size());
}

// Of the first pages in what was committed, in their order: what SQLite would read into the file, and no more.
std::vector<Mark> marks_of_log(const std::string& path) {
  std::ifstream log(path, std::ios::binary);
  std::string head(kLogHead, '\0');
  if (!read_some(log, head) || !is_log(head)) return {};
  const std::uint32_t page_size = number_at(head, 8);
  Checksum sum{(number_at(head, 0) & 1U) != 0};
  sum.add(std::string_view(head).substr(0, kFrameHead));
  if (!std::has_single_bit(page_size) || page_size < 512 || page_size > 65536 || !sum.is_at(head, kFrameHead))
    return {};
  std::vector<Mark> marks;
  std::size_t committed = 0;
  for (std::string frame(kFrameHead + page_size, '\0'); read_some(log, frame);) {
    const std::string_view bytes = frame;
    sum.add(bytes.substr(0, 8));
    sum.add(bytes.substr(kFrameHead));
    if (bytes.substr(8, 8) != std::string_view(head).substr(kLogSalts, 8) || !sum.is_at(bytes, 16)) break;
    if (number_at(bytes, 0) == 1) marks.push_back(mark_in(bytes.substr(kFrameHead)));
    if (number_at(bytes, 4) != 0) committed = marks.size();
  }
  marks.resize(committed);
  return marks;
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

}  // namespace

Status check_log(const std::string& path) {
  const std::string log = path + "-wal";
  if (OpenFile::is_open(path) || is_in_use(path)) return {};
  const std::vector<Mark> marks = marks_of_log(log);
  if (marks.empty()) return {};
  std::ifstream file(path, std::ios::binary);
  std::string head(kFileHead, '\0');
  if (!read_some(file, head)) {
    return bad_input(path + " is gone, or was cut to nothing, beside its log " + log +
                     "; nothing was changed. Put the file back, or a backup after moving the log away. To begin with " +
                     "nothing, move the log away");
  }
  if (belongs(mark_in(head), marks)) return {};
  return bad_input(log + " is the log of another file than " + path + ", which was put in that one's place: what the " +
                   "log holds would be read into it; nothing was changed. To go on with the file as it is, move the " +
                   "log away. To go on with what was there before, put the other file back");
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
