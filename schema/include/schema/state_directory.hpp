#pragma once

// Which directory holds a daemon's state, and whether it may: its databases name jobs and the commands that are run for
// them. Any thread.

#include <string>

#include "base/result.hpp"

namespace trimtab {

// Where the state of a user stands that nobody has named another place for: `state_home`/trimtab, else
// `home`/.local/state/trimtab, as XDG_STATE_HOME and HOME say. An error where both are empty: no place that everybody
// knows and may write to, such as /tmp, stands in for them. Pure.
[[nodiscard]] Result<std::string> user_state_directory(const std::string& state_home, const std::string& home);

// An error where this is root and a part of `path` is another user's link: who owns it says where the state is. Before
// the directory is made. Nothing is refused to other users.
[[nodiscard]] Status check_state_path(const std::string& path);

// An error where everybody on the machine may write in it, so that somebody else may have put there what the daemon
// then believes. Not where it is root's: clusters mount volumes so, which their containers alone see; nor
// where it is this user's, below what nobody else may write in (shares that are mounted with one mode for all).
// Root's daemon also refuses one that another user owns. Who owns another user's daemon's is its maker's choice: a
// volume is its group's, or that of the user outside the container.
[[nodiscard]] Status check_state_directory(const std::string& path);

// The same of the folder of a daemon's Unix socket, where root's or this user's with the sticky bit will do, too:
// nobody else can put another socket in the place of one there.
[[nodiscard]] Status check_socket_directory(const std::string& path);

// Makes what is missing of it. What is made is for its user alone, whatever the umask says: jobs' commands, logs and
// plans are nobody else's. What was there stays as it is.
[[nodiscard]] Status make_private_directories(const std::string& path);

// For a person's own commands, which believe what stands there and signal whom it names: of what of `path` exists,
// asked before the directory is made and after. An error where it, or a link on the way to it, is neither this user's
// nor root's; where everybody may write in it (but for this user's shares, as above); and where somebody else may put
// another in its place: everybody may write in a folder above it that is neither root's (a volume) nor of this user
// with the sticky bit, or, for root, another user owns one.
[[nodiscard]] Status check_own_state(const std::string& path);

// Makes what is missing of `path` in a state directory of a person's own, or of that itself, and asks check_own_state()
// of each part: a group may write there, and any of its members may have made one first. Where one is this user's it
// gets the sticky bit, so that no member can remove what is in it. REQUIRES: `path` begins with the directory.
[[nodiscard]] Status make_own_directories(const std::string& state, const std::string& path);

}  // namespace trimtab
