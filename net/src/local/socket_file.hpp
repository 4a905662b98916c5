#pragma once

// The Unix socket's file: taken over where a dead process left it, refused where a live one listens. A lock file beside
// it (PATH.lock) keeps two processes from taking over the same stale file at the same time. A link there is not
// followed.

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace trimtab::net {

// Who may speak to the agent: its own user, and root; numbers are those of the agent's own user namespace, where the
// kernel has translated them.
[[nodiscard]] constexpr bool peer_admitted(uid_t peer, uid_t own) {
  return peer == own || peer == 0;
}

class SocketFile final {
 public:
  // Listens at `path` with mode 0660.
  [[nodiscard]] static Result<SocketFile> listen(const std::string& path);
  SocketFile(SocketFile&& other) noexcept;
  SocketFile& operator=(SocketFile&&) = delete;
  ~SocketFile();

  // The listening descriptor; owned by this object.
  [[nodiscard]] int descriptor() const { return descriptor_; }
  // Closes and removes the file.
  void close();

 private:
  explicit SocketFile(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] Status lock();
  [[nodiscard]] Status remove_stale() const;
  [[nodiscard]] Status bind_and_listen();

  std::string path_;
  int lock_ = -1;
  int descriptor_ = -1;
  bool bound_ = false;
};

// Which users this process can tell apart. In a container's user namespace every user that has no number there is shown
// as one and the same, the overflow user (65534, "nobody"): who is shown as that may be anybody. Plain values, and one
// function that reads /proc.
struct UserNamespace {
  bool knows_all = true;   // every user has a number here: no container's
  uid_t overflow = 65534;  // what the others are shown as

  [[nodiscard]] bool knows(uid_t uid) const { return knows_all || uid != overflow; }
};

// From the text of /proc/self/uid_map and /proc/sys/kernel/overflowuid. What cannot be read knows nobody of that
// number.
[[nodiscard]] UserNamespace parse_user_namespace(std::string_view uid_map, std::string_view overflow);
[[nodiscard]] UserNamespace own_user_namespace();

// objection_to_agent() of one whose user that is. `own`: as whom this process runs, which can tell `users` apart.
[[nodiscard]] std::string objection_to_agent_of(uid_t user, uid_t own, const UserNamespace& users,
                                                const std::string& named);

}  // namespace trimtab::net
