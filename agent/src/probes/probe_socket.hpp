#pragma once

// A TCP socket of a probe's thread: blocking calls that end at a deadline or when the probe is cancelled. IPv4 and
// IPv6, addresses as numbers. Owned by one thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "probes/probe_stream.hpp"
#include "probes/probe_wait.hpp"

namespace trimtab::agent {

class ProbeSocket final : public ProbeStream {
 public:
  // On any free port.
  [[nodiscard]] static Result<ProbeSocket> listen(const std::string& address);
  [[nodiscard]] static Result<ProbeSocket> connect(const std::string& address, std::uint16_t port,
                                                   const ProbeWait& wait);
  ProbeSocket(ProbeSocket&& other) noexcept;
  ProbeSocket& operator=(ProbeSocket&& other) noexcept;
  ~ProbeSocket() override;

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

  int descriptor_ = -1;
  std::uint16_t port_ = 0;  // of a listening one
};

}  // namespace trimtab::agent
