#pragma once

// A TCP socket of a probe's thread: blocking calls that end at a deadline or when the probe is cancelled. IPv4 and
// IPv6, addresses as numbers. Owned by one thread.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.hpp"
#include "base/result.hpp"

#include "base/descriptor.hpp"

namespace trimtab::agent {

// Until when a probe's thread may wait, and whether it still should. A value that borrows; any thread.
struct ProbeWait {
  const Clock& clock;
  Nanoseconds deadline{0};  // of clock.monotonic()
  const std::atomic<bool>& cancelled;

  // What is left, at most `most`.
  [[nodiscard]] Nanoseconds left(Nanoseconds most) const {
    return std::clamp(deadline - clock.monotonic(), Nanoseconds(0), most);
  }
  // An error that says while what it ended.
  [[nodiscard]] Status check(const std::string& what) const {
    if (cancelled) return unavailable("the probe was cancelled while " + what);
    if (clock.monotonic() >= deadline) return unavailable("the probe's time was over while " + what);
    return {};
  }
};

// Bytes to and from the other side of a link's probe: a ProbeSocket, or what a test plays.
class ProbeStream {
 public:
  virtual ~ProbeStream() = default;
  // All of it, or an error: also where the other side closes.
  [[nodiscard]] virtual Status send(std::span<const std::byte> bytes, const ProbeWait& wait) const = 0;
  [[nodiscard]] virtual Status receive(std::span<std::byte> bytes, const ProbeWait& wait) const = 0;
};

class ProbeSocket final : public ProbeStream {
 public:
  // On any free port.
  [[nodiscard]] static Result<ProbeSocket> listen(const std::string& address);
  [[nodiscard]] static Result<ProbeSocket> connect(const std::string& address, std::uint16_t port,
                                                   const ProbeWait& wait);

  [[nodiscard]] std::uint16_t port() const { return port_; }
  // Of a connection, as numbers; empty where it has no other end any more.
  [[nodiscard]] std::string local_address() const;
  [[nodiscard]] std::string peer_address() const;
  // The next connection; an error at the deadline.
  [[nodiscard]] Result<ProbeSocket> accept(const ProbeWait& wait) const;
  [[nodiscard]] Status send(std::span<const std::byte> bytes, const ProbeWait& wait) const override;
  [[nodiscard]] Status receive(std::span<std::byte> bytes, const ProbeWait& wait) const override;

 private:
  explicit ProbeSocket(int descriptor) : descriptor_(descriptor) {}
  Status ready(short events, const std::string& what, const ProbeWait& wait) const;

  Descriptor descriptor_;
  std::uint16_t port_ = 0;  // of a listening one
};

}  // namespace trimtab::agent
