#pragma once

// The present stretch of time in which kernels are not all recorded, published as kWindow records: when it ends, when
// its reason changes, and every five seconds of a long one. One thread.

#include <cstdint>

#include "schema/record.hpp"
#include "session.hpp"

namespace trimtab::inject::cupti {

class LossWindow {
 public:
  static constexpr std::uint64_t kPieceNs = 5'000'000'000;

  constexpr LossWindow() = default;

  // Kernels are lost from `since_ns` (real time) on. Another reason ends the window before; the same one changes
  // nothing. `reason` is a literal.
  void open(Session& session, const char* reason, std::uint64_t since_ns);
  void close(Session& session, std::uint64_t now_ns);
  // Publishes what has become long.
  void publish_long(Session& session, std::uint64_t now_ns);
  [[nodiscard]] bool is_open() const { return reason_ != nullptr; }

 private:
  void publish(Session& session, std::uint64_t end_ns);

  const char* reason_ = nullptr;
  std::uint64_t since_ns_ = 0;
};

}  // namespace trimtab::inject::cupti
