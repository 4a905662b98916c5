#pragma once

// The agent's Unix socket (docs/protocols.md): length-prefixed JSON frames, descriptors by SCM_RIGHTS, peer credentials
// checked (same user, or root) before the first byte is read. Malformed peers are closed with a reason, and so are
// those beyond LocalLimits; they cannot grow memory beyond one frame each. All callbacks run on the loop's thread.

#include <sys/types.h>

#include <string_view>

#include "net/event_loop.hpp"
#include "net/rate.hpp"

namespace trimtab::net {

using LocalPeerId = std::uint64_t;

struct LocalServerHandlers {
  std::function<void(LocalPeerId, pid_t pid, uid_t uid)> opened;
  // `descriptor` is -1 or a descriptor that came with this frame; the callee owns it.
  std::function<void(LocalPeerId, std::string_view json, int descriptor)> frame;
  std::function<void(LocalPeerId, const std::string& reason)> closed;
  // Somebody who may not speak here, or has too many connections, has connected, and nothing of what it said was read;
  // or who is beyond another limit is being closed.
  std::function<void(pid_t pid, uid_t uid, const std::string& reason)> refused = {};
  // Its frames come faster than they may, and are read later.
  std::function<void(LocalPeerId)> delayed = {};
};

// Of whoever may speak. Defaults are what processes of a job do not come near to.
struct LocalLimits {
  Nanoseconds introduction = std::chrono::seconds(10);  // from the connection to the first whole frame
  std::size_t connections_of_process = 64;  // at a time; of those whose pid is not known, all that there are
  std::size_t half_frame_bytes = std::size_t{16} << 20;  // of all, beyond a small buffer each; 16 frames of the largest
};

class LocalServer final {
 public:
  // Takes over a stale socket file, refuses when another process listens there. Mode 0660. `max_rate` is
  // each process's.
  [[nodiscard]] static Result<std::unique_ptr<LocalServer>> start(EventLoop& loop, const std::string& path,
                                                                  LocalServerHandlers handlers,
                                                                  const Rate& max_rate = {},
                                                                  const LocalLimits& limits = {});
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
