#pragma once

// How far a database's log went when something in it was last confirmed: a file of its own beside it, PATH-confirmed.
// SQLite reads a log up to its first frame that is wrong, so the log alone does not tell that it held more. It is
// written once the log is on the disk, and is not synced: it may be behind, and is never ahead. Programs that do not
// know it leave it behind, too.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "store/file_place.hpp"

struct sqlite3_file;

namespace trimtab {

struct ConfirmedLog {
  std::string salts;  // of the log: it is another one once it was copied into the file and begun anew
  std::uint32_t frames = 0;
  std::uint32_t changes = 0;  // the first page's counter, as the log has it
  std::uint32_t copied = 0;   // of the frames: as many as the file had with them when it was last synced
  bool operator==(const ConfirmedLog&) const = default;
};

[[nodiscard]] std::string confirmed_path(const std::string& database);

// Nothing where there is none that is whole.
[[nodiscard]] std::optional<ConfirmedLog> confirmed_log(const std::string& database);

// Where the file has no log: what is there may be another file than the one that had.
void forget_confirmed(const std::string& database);

// Open. Its owner, group and rights are the database's. A link is replaced, also a hard one: what it names is not ours.
// Where it cannot be written, a start is told less.
class ConfirmedFile {
 public:
  ConfirmedFile(const std::string& database, bool creates);
  ConfirmedFile(const ConfirmedFile&) = delete;
  ConfirmedFile& operator=(const ConfirmedFile&) = delete;
  ~ConfirmedFile();

  // Open, and its path still names it.
  [[nodiscard]] bool is_in_place() const;
  // What was copied once stays so, whoever has written of the same log. False where it cannot be written.
  [[nodiscard]] bool write(ConfirmedLog log);
  // On the disk when it returns.
  void forget();

 private:
  [[nodiscard]] sqlite3_file* file() const;

  const std::string path_;  // SQLite keeps a pointer to it
  std::unique_ptr<char[]> file_;
  std::optional<FileIdentity> place_;
  ConfirmedLog written_;
};

}  // namespace trimtab
