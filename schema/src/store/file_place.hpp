#pragma once

// Whether the paths of a database still name the files that are open. What is written into a file that was removed or
// replaced is gone with the process, so nothing of it may be confirmed.

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/result.hpp"

namespace trimtab {

// Which file a path names: nothing where there is none.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};
[[nodiscard]] std::optional<FileIdentity> identity_of(const std::string& path);

// A database's file behind links (followed_name()): SQLite puts a log beside the file, so all that stands beside it
// must go there, too. A name that SQLite would take for a URI gets "./" before it. `is_written`: another user's link is
// refused.
[[nodiscard]] Result<std::string> real_name(const std::string& path, bool is_written);

// A database file and its log, as they were when it was opened.
class FilePlace {
 public:
  FilePlace() = default;
  // REQUIRES: it is open in WAL mode, so both are there; SQLite keeps them until it is closed.
  explicit FilePlace(const std::string& path);

  enum class State {
    kKept,
    kRemoved,     // nothing is at the path
    kReplaced,    // another file is
    kLogRemoved,  // the file is there, its log is not, or an empty one is
    kLogReplaced
  };
  [[nodiscard]] State look() const;
  // Takes the open file's log away from beside another file, which SQLite would take it for the log of. The open file
  // keeps it, without a name.
  void take_log_away() const;
  [[nodiscard]] bool is_set() const { return file_.has_value(); }

 private:
  std::string path_;
  std::optional<FileIdentity> file_;
  std::optional<FileIdentity> log_;
};

// A removed file is written back in two steps, so that an end in their midst loses nothing: a copy beside it, then the
// copy takes the place. The removed file's log must not stay, for SQLite would take it for the copy's.
[[nodiscard]] std::string rescued_of(const std::string& path);
// The second step, also of a process that ended before it; nothing to do where there is no copy, or a file in its
// place.
[[nodiscard]] Status take_rescued(const std::string& path);

// A damaged file goes aside, as PATH.damaged (or .damaged-2, ...), and PATH.rescued.tmp, which is whole, takes its
// place in the same two steps. Returns its name.
[[nodiscard]] Result<std::string> change_places(const std::string& path);

// The same names, for copies of a file and of its log: both stay. REQUIRES: nobody has it open.
[[nodiscard]] Result<std::string> keep_copies(const std::string& path);
// On the disk when it returns: else a power cut could bring it back beside a newer file. REQUIRES: copies are kept.
[[nodiscard]] Status remove_log(const std::string& path);

}  // namespace trimtab
