#pragma once

// The agent's Unix socket (docs/protocols.md): length-prefixed JSON frames, descriptors by SCM_RIGHTS, peer credentials
// checked (same user, or root) before the first byte is read. Malformed peers are closed with a reason; they cannot
// grow memory beyond one frame each. All callbacks run on the loop's thread.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "net/event_loop.hpp"
#include "net/rate.hpp"

namespace trimtab::net {

using LocalPeerId = std::uint64_t;

struct LocalServerHandlers {
  std::function<void(LocalPeerId, pid_t pid, uid_t uid)> opened;
  // `descriptor` is -1 or a descriptor that came with this frame; the callee owns it.
  std::function<void(LocalPeerId, std::string_view json, int descriptor)> frame;
  std::function<void(LocalPeerId, const std::string& reason)> closed;
  // Somebody who may not speak here has connected, and nothing of what it said was read.
  std::function<void(pid_t pid, uid_t uid, const std::string& reason)> refused = {};
  // Its frames come faster than they may, and are read later.
  std::function<void(LocalPeerId)> delayed = {};
};

class LocalServer final {
 public:
  // Takes over a stale socket file, refuses when another process listens there. Mode 0660. `max_rate` is
  // each process's.
  [[nodiscard]] static Result<std::unique_ptr<LocalServer>> start(EventLoop& loop, const std::string& path,
                                                                  LocalServerHandlers handlers,
                                                                  const Rate& max_rate = {});
  ~LocalServer();
  // False when the peer is gone or does not read (its queue is bounded; then it is closed).
  bool send(LocalPeerId peer, std::string_view json);
  void close(LocalPeerId peer);
  void stop();

 private:
  struct Implementation;
  explicit LocalServer(std::shared_ptr<Implementation> implementation);
  std::shared_ptr<Implementation> implementation_;
};

}  // namespace trimtab::net
