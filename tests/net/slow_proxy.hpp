#pragma once

// A slow link: passes one TCP connection on to a port on loopback, what the client sends at some 800 KB/s. On a thread
// of its own, until it is destroyed.

#include <atomic>
#include <cstdint>
#include <thread>

namespace trimtab::net {

class SlowProxy final {
 public:
  explicit SlowProxy(std::uint16_t upstream_port);
  ~SlowProxy();
  SlowProxy(const SlowProxy&) = delete;
  SlowProxy& operator=(const SlowProxy&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  // From now on nothing is passed on, and nothing breaks.
  void stand_still() { still_ = true; }

 private:
  void run(std::uint16_t upstream_port);

  int listener_;
  std::uint16_t port_ = 0;
  std::atomic<bool> still_ = false;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace trimtab::net
