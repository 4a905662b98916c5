#include "store/sqlite_failure.hpp"

#include <SQLiteCpp/Exception.h>
#include <sqlite3.h>

#include "documents/json_document.hpp"

namespace trimtab {

Error sqlite_failure(const SQLite::Exception& failure, const std::string& what, const std::string& path) {
  const std::string subject = what + " " + path;
  // It may repeat what stands in a file that somebody else wrote.
  const std::string reason =
      valid_text(failure.what()) + " (SQLite " + std::to_string(failure.getExtendedErrorCode()) + ")";
  switch (failure.getErrorCode()) {
    case SQLITE_FULL:
      return unavailable(subject +
                         ": the disk is full; nothing of this change was stored. Free space there, then try again");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return unavailable(subject + ": another program has kept it locked for 5 s; nothing of this change was stored. " +
                         "Wait for that program or stop it, then try again");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return unavailable(subject +
                         ": needs a file that may be read and written and a directory that takes new files: " + reason +
                         ". Check their permissions, or give another path");
    case SQLITE_NOTADB:
      return bad_input(subject + ": this file is not an SQLite database; nothing was changed. Give another path");
    case SQLITE_CORRUPT:
      return bad_input(subject + ": the file is damaged: " + reason + ". Put a backup in its place");
    case SQLITE_IOERR:
      if (failure.getExtendedErrorCode() == SQLITE_IOERR_FSYNC) {
        return unavailable(subject + ": the disk did not confirm that it has what was written: " + reason +
                           "; nothing of this change counts as stored. Look for the disk's errors in the kernel's log");
      }
      return unavailable(subject + ": reading or writing failed: " + reason +
                         "; nothing of this change was stored. Check the disk and its free space");
    default:
      return bad_input(subject + ": " + reason);
  }
}

}  // namespace trimtab
