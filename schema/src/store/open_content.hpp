#pragma once

// Whether the open file and its log still hold what SQLite has put there. A program that cuts or overwrites them in
// their place changes no path, and what is stored afterwards is gone at the next start. SQLite keeps in memory, which
// all who have the file open share, how far its log goes and how much of that was copied into the file
// (sqlite.org/walformat.html). That is compared with the first bytes of both, and with the log from its frame on that
// was the last at the last look: each frame is read once after it was written, and the last one at each look.

#include <cstdint>
#include <string>

#include <SQLiteCpp/Database.h>

#include "store/confirmed_log.hpp"
#include "store/log_checksum.hpp"

struct sqlite3_file;

namespace trimtab {

struct LogIndex;

class OpenContent {
 public:
  enum class State {
    kKept,
    kFileChanged,
    kLogChanged  // what was stored since the last copy of the log into the file may be gone
  };
  // Remembers what it has seen, for the next look. Another program that is writing at this very moment may look like
  // one that has changed something: look twice. REQUIRES: the connection has read in WAL mode, always the same.
  [[nodiscard]] State look(SQLite::Database& connection);
  // Whether all of the log is in the file, so that the next change begins it anew.
  [[nodiscard]] static bool begins_log(SQLite::Database& connection);
  // The log as the last look has found it. No frames: there was none yet.
  [[nodiscard]] const ConfirmedLog& log() const { return log_; }

 private:
  [[nodiscard]] bool log_fits(sqlite3_file* file, const LogIndex& index, const std::string& header);

  std::string header_;
  std::int64_t size_ = 0;
  std::string copying_;  // what differs after every copy of the log into the file
  ConfirmedLog log_;
  LogChecksum before_last_;  // of the log before its last frame
};

}  // namespace trimtab
