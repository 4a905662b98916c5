#pragma once

// The Unix socket's file: taken over where a dead process left it, refused where a live one listens. A lock file beside
// it (PATH.lock) keeps two processes from taking over the same stale file at the same time.

#include <sys/types.h>

#include <string>

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

}  // namespace trimtab::net
