#include "store/open_content.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "store/log_index.hpp"
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

std::string copying(const LogIndex& index) {
  return index.salts() + std::to_string(index.to_be_copied()) + " " + std::to_string(index.copied());
}

// What a copy of the log into the file may make of its header: never an older one.
bool may_follow(const std::string& header, const std::string& now) {
  const auto changes = static_cast<std::int32_t>(number_at(now, kChangeCounter) - number_at(header, kChangeCounter));
  return now.compare(0, kChangeCounter, header, 0, kChangeCounter) == 0 && changes >= 0;
}

}  // namespace

OpenContent::State OpenContent::look(SQLite::Database& connection) {
  sqlite3_file* const file = file_of(connection, SQLITE_FCNTL_FILE_POINTER);
  const auto before = index_of(file);  // what others copy from here on may stand in what is read of the file, or not
  const auto header = bytes_at(file, 0, kFileHead);
  sqlite3_int64 size = 0;
  if (!header || file->pMethods->xFileSize(file, &size) != SQLITE_OK) return State::kKept;
  const auto index = index_of(file);  // after the file: what was copied is known before it is there
  if (!before || !index) return State::kKept;
  sqlite3_file* const log = file_of(connection, SQLITE_FCNTL_JOURNAL_POINTER);
  if (index->frames() > 0 && !log_fits(log, *index, *header)) return State::kLogChanged;
  const bool is_same = *header == header_ && size >= size_;
  const bool was_copied = copying(*index) != copying_ || index->copied() < index->to_be_copied();
  const bool lacks_end =
      before->is_copied() && index->is_copied() && size < std::min(before->file_size(), index->file_size());
  const bool is_first = header_.empty();
  if (lacks_end || !(is_first || is_same || (was_copied && may_follow(header_, *header)))) return State::kFileChanged;
  header_ = *header;
  size_ = size;
  copying_ = copying(*before);
  return State::kKept;
}

// That its first bytes and its frames are those that were written. Who writes where it cannot be read is told.
bool OpenContent::log_fits(sqlite3_file* file, const LogIndex& index, const std::string& header) {
  const auto head = bytes_at(file, 0, kLogHead);
  if (!head) return true;
  if (!is_log(*head) || head->substr(kLogSalts, kSalts) != index.salts()) return false;
  if (log_.salts != index.salts() || log_.frames > index.frames()) {
    log_ = {index.salts(), 1, number_at(header, kChangeCounter)};
    before_last_ = LogChecksum(*head);
  }
  if (index.is_copied()) log_.copied = index.frames();
  const std::size_t size = kFrameHead + static_cast<std::size_t>(index.page_size());
  for (;; ++log_.frames) {
    const auto frame = bytes_at(file, static_cast<std::int64_t>(kLogHead + (log_.frames - 1) * size), size);
    if (!frame) return true;
    LogChecksum sum = before_last_;
    sum.add_frame(*frame);
    if (frame->compare(8, kSalts, log_.salts) != 0 || !sum.is_at(*frame, 16)) return false;
    if (number_at(*frame, 0) == 1) log_.changes = number_at(*frame, kFrameHead + kChangeCounter);
    if (log_.frames == index.frames()) return sum.is(index.words[6], index.words[7]);
    before_last_ = sum;
  }
}

bool OpenContent::begins_log(SQLite::Database& connection) {
  const auto index = index_of(file_of(connection, SQLITE_FCNTL_FILE_POINTER));
  return index && index->is_copied();
}

}  // namespace trimtab
