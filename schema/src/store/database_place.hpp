#pragma once

// What can be told of a database's path before SQLite touches it, and whose it is: SQLite would create files beside a
// database that it opens, and recover one that is not ours.

#include <string>

#include "base/result.hpp"
#include "schema/database.hpp"

namespace trimtab {

// Refuses a path that cannot be opened in this mode, and a file that is not ours. Changes nothing.
[[nodiscard]] Status check_place(const std::string& path, DatabaseMode mode, const Migrations& migrations);

// Of a database file while this process has it open in SQLite: the process's locks on a file are lost as soon as any
// descriptor of it is closed (fcntl(2)), so nothing else may open it here meanwhile. Any thread.
class OpenFile final {
 public:
  explicit OpenFile(const std::string& path);
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();
  [[nodiscard]] static bool is_open(const std::string& path);

 private:
  std::string path_;
};

// The refusal of somebody else's file.
[[nodiscard]] Error foreign_file(const std::string& path, const Migrations& migrations, const std::string& found);

// A file that nobody can be writing, in a directory where SQLite cannot create its working files.
[[nodiscard]] bool is_immutable(const std::string& path);

// Says "this process owns that database" to other processes, by an flock on a file beside it. The kernel drops the lock
// with the process, however it ends, so it is never stale; the file itself stays. Not inherited through exec.
class OwnerLock {
 public:
  OwnerLock() = default;  // owns nothing
  // Fails with the pid of the owner when there is one. Waits up to ten seconds for an owner that is ending: the kernel
  // closes the files of a killed process a moment after its pid is a zombie.
  [[nodiscard]] static Result<OwnerLock> acquire(const std::string& database_path);
  OwnerLock(OwnerLock&& other) noexcept;
  OwnerLock& operator=(OwnerLock&& other) noexcept;
  ~OwnerLock();

  // Takes the lock again where its file was removed: else a second owner would make one of its own. Fails where there
  // is such an owner already. Nothing to do for who owns nothing.
  [[nodiscard]] Status renew(const std::string& database_path);

 private:
  explicit OwnerLock(int file) : file_(file) {}
  int file_ = -1;
};

}  // namespace trimtab
