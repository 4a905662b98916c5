#include "store/open_content.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "store/page_bytes.hpp"

namespace trimtab {

namespace {

sqlite3_file* file_of(SQLite::Database& connection, int which) {
  sqlite3_file* file = nullptr;
  const bool told = sqlite3_file_control(connection.getHandle(), "main", which, &file) == SQLITE_OK;
  return told && file != nullptr && file->pMethods != nullptr ? file : nullptr;
}

// Zeros beyond the end. Nothing where it cannot be read.
std::optional<std::string> bytes_at(sqlite3_file* file, std::int64_t place, std::size_t count) {
  std::string bytes(count, '\0');
  if (file == nullptr) return std::nullopt;
  const int read = file->pMethods->xRead(file, bytes.data(), static_cast<int>(count), place);
  if (read != SQLITE_OK && read != SQLITE_IOERR_SHORT_READ) return std::nullopt;
  return bytes;
}

// What is shared of the log, in words of 32 bits as the processor has them.
struct LogIndex {
  std::array<std::uint32_t, 33> words{};

  [[nodiscard]] std::int64_t page_size() const {
    const auto size = std::bit_cast<std::array<std::uint16_t, 2>>(words[3])[1];
    return size == 1 ? 65536 : size;
  }
  [[nodiscard]] std::uint32_t frames() const { return words[4]; }
  [[nodiscard]] std::int64_t file_size() const { return page_size() * words[5]; }
  [[nodiscard]] std::uint32_t copied() const { return words[24]; }
  [[nodiscard]] std::uint32_t to_be_copied() const { return words[32]; }  // set before the copying begins
  [[nodiscard]] std::string salts() const { return {reinterpret_cast<const char*>(&words[8]), 8}; }
  // It stands twice, and somebody may be writing it.
  [[nodiscard]] bool is_whole() const { return std::equal(words.begin(), words.begin() + 12, words.begin() + 12); }
};

std::optional<LogIndex> index_of(sqlite3_file* file) {
  constexpr int kRegion = 32768;
  void volatile* shared = nullptr;
  if (file == nullptr || file->pMethods->iVersion < 2) return std::nullopt;
  if (file->pMethods->xShmMap(file, 0, kRegion, 0, &shared) != SQLITE_OK || shared == nullptr) return std::nullopt;
  LogIndex index;
  std::memcpy(index.words.data(), const_cast<const void*>(shared), sizeof index.words);
  if (!index.is_whole()) return std::nullopt;
  return index;
}

// That its first bytes and its last frame are those that were written.
bool log_fits(sqlite3_file* log, const LogIndex& index) {
  if (index.frames() == 0) return true;
  const auto head = bytes_at(log, 0, kLogHead);
  const auto frame =
      bytes_at(log, kLogHead + (std::int64_t{index.frames()} - 1) * (kFrameHead + index.page_size()), kFrameHead);
  if (!head || !frame) return true;  // who writes there next is told
  return is_log(*head) && head->substr(kLogSalts, 8) == index.salts() && frame->substr(8, 8) == index.salts() &&
         number_at(*frame, 16) == index.words[6] && number_at(*frame, 20) == index.words[7];
}

// What a copy of the log into the file may make of its header: never an older one.
bool may_follow(const std::string& header, const std::string& now) {
  const auto changes = static_cast<std::int32_t>(number_at(now, kChangeCounter) - number_at(header, kChangeCounter));
  return now.compare(0, kChangeCounter, header, 0, kChangeCounter) == 0 && changes >= 0;
}

}  // namespace

OpenContent::State OpenContent::look(SQLite::Database& connection) {
  sqlite3_file* const file = file_of(connection, SQLITE_FCNTL_FILE_POINTER);
  const auto header = bytes_at(file, 0, kFileHead);
  sqlite3_int64 size = 0;
  if (!header || file->pMethods->xFileSize(file, &size) != SQLITE_OK) return State::kKept;
  const auto index = index_of(file);  // after the file: what was copied is known before it is there
  if (!index) return State::kKept;
  if (!log_fits(file_of(connection, SQLITE_FCNTL_JOURNAL_POINTER), *index)) return State::kLogChanged;
  const std::string copying = index->salts() + std::to_string(index->to_be_copied());
  const bool is_same = *header == header_ && size >= size_;
  const bool was_copied = copying != copying_ || index->copied() < index->to_be_copied();
  const bool lacks_end = index->copied() == index->frames() && size < index->file_size();
  const bool is_first = header_.empty();
  if (lacks_end || !(is_first || is_same || (was_copied && may_follow(header_, *header)))) return State::kFileChanged;
  header_ = *header;
  size_ = size;
  copying_ = copying;
  return State::kKept;
}

bool OpenContent::begins_log(SQLite::Database& connection) {
  const auto index = index_of(file_of(connection, SQLITE_FCNTL_FILE_POINTER));
  return index && index->copied() == index->frames();
}

}  // namespace trimtab
