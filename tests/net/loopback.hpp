#pragma once

// Plain blocking sockets and a way to use them beside a loop: the loop runs on the test's thread, the client on
// another.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "net/event_loop.hpp"

namespace trimtab::net {

// Runs the loop until `client`, on a thread of its own, has returned (or 20 s have passed: then the test fails).
void while_loop_runs(EventLoop& loop, const std::function<void()>& client);

// Runs the loop until `done` holds; false after `limit`.
[[nodiscard]] bool run_until(EventLoop& loop, const std::function<bool()>& done,
                             Nanoseconds limit = std::chrono::seconds(20));

class RawClient final {
 public:
  static RawClient tcp(std::uint16_t port);
  static RawClient unix_socket(const std::string& path);
  RawClient(RawClient&& other) noexcept;
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient();

  [[nodiscard]] bool connected() const { return connected_; }
  // False when the other side has closed.
  bool send(std::string_view bytes) const;
  bool send_with_descriptors(std::string_view bytes, const std::vector<int>& descriptors) const;
  // Until the other side closes.
  [[nodiscard]] std::string read_all() const;
  [[nodiscard]] std::string read_exactly(std::size_t count) const;
  void shut_down_sending() const;

 private:
  RawClient() = default;
  int descriptor_ = -1;
  bool connected_ = false;
};

// A path that no other test uses, in a directory that is removed at the end.
class TemporaryDirectory final {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

}  // namespace trimtab::net
