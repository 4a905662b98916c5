#pragma once

// Whole files, with errors that name the file and the cause, and what else verbs do to files.

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "schema/durable_file.hpp"

namespace trimtab::cli {

// A file descriptor that is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { reset(); }
  [[nodiscard]] int get() const { return value_; }
  void reset();

 private:
  int value_;
};

// A file that is not there, cannot be read or is larger than 64 MiB is bad input: the person named it.
[[nodiscard]] Result<std::string> read_file(const std::string& path);
// Reads plain files that a script names from its own folder on, as `read_script` wants it. What cannot be read is
// nothing.
[[nodiscard]] std::function<std::optional<std::string>(const std::string& path)> files_beside(
    const std::string& script);
// Refuses to write where one of the inputs is, under whatever name, or what stands beside it as a database's log: that
// would destroy it. `flag` names `out` in the message; an empty name is no file.
[[nodiscard]] Status check_apart(const std::string& flag, const std::string& out,
                                 const std::vector<std::string>& inputs);
// Where a new file is put for the name that a person gives: there, where nothing is or a plain file; in the place of a
// link that is another user's, also behind links of this user's and root's. Nothing: what is there stays what it is and
// is written to, be it a device, a pipe or such a link.
[[nodiscard]] std::optional<std::string> replaced_name(const std::string& path);
// Of a file that a person names; in a folder it is replace_file() (schema/durable_file.hpp) that follows no link.
// Writes a neighbour and renames it over replaced_name(), so that a reader never sees half a file. Where there is none,
// what is there is written to. Failure is kUnavailable.
[[nodiscard]] Status write_file(const std::string& path, std::string_view content);
// The same, readable by its owner alone from the first byte on, and on the disk when it returns.
[[nodiscard]] Status write_private_file(const std::string& path, std::string_view content);
// Changes a file that a daemon of another user may read, and that other commands may be changing: one at a time, which
// an flock on its directory sees to, and for ten seconds at most. `change` gets what is there ("" where nothing is) and
// says what is to be there. The file keeps its owner, group and mode. A new one has `mode`, whatever this process's
// mask. A link of this user's or root's is followed and stays, another user's is refused.
using ChangeText = std::function<Result<std::string>(const std::string& text)>;
[[nodiscard]] Status change_shared_file(const std::string& path, mode_t mode, const ChangeText& change);
// An flock. False: another process has held it for all of `patience`; without one it is waited for. A file system
// without locks counts as locked.
[[nodiscard]] bool take_lock(const Descriptor& file, const Clock& clock, std::optional<Nanoseconds> patience);
// Waits for other commands that change files in that directory.
[[nodiscard]] Result<Descriptor> lock_directory(const std::string& directory);
[[nodiscard]] Status make_directories(const std::string& path);
// Makes the directory and sees, by a file that goes again, that replace_file() can write into it.
[[nodiscard]] Status make_writable_directory(const std::string& path);
// Also false where nobody can tell.
[[nodiscard]] bool is_there(const std::string& path);
// Where it is there and can be removed.
void remove_if_there(const std::string& path);

// A file that these commands keep for themselves. What is no plain file of this user's or root's is refused, and a link
// is not followed. A file that is made has mode 0640.
[[nodiscard]] Result<Descriptor> open_own_file(const std::string& path, int flags);
[[nodiscard]] Result<std::string> read_own_file(const std::string& path);

}  // namespace trimtab::cli
