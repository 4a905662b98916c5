#pragma once

// The framing of the agent's Unix socket: a 32-bit little-endian length, then that many bytes. Pure; the bytes come
// from an untrusted peer, so nothing is allocated for a length before its bytes have come.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace trimtab::net {

inline constexpr std::size_t kMaxLocalFrameBytes = 1U << 20;
inline constexpr std::size_t kLocalLengthBytes = 4;
inline constexpr std::size_t kSmallBuffer = 16 * 1024;

// REQUIRES: json.size() <= kMaxLocalFrameBytes.
[[nodiscard]] std::string frame_for(std::string_view json);

// Cuts a byte stream into frames.
class LocalFrameCutter {
 public:
  void add(std::string_view bytes) { pending_.append(bytes); }

  struct Frame {
    std::string json;
    bool ends_the_bytes = false;  // it holds the last byte that was added
  };
  // The next complete frame, or nothing yet. After `broken()` nothing comes any more.
  [[nodiscard]] std::optional<Frame> next();
  // Why the stream cannot go on, where a length was out of range; else empty.
  [[nodiscard]] const std::string& broken() const { return broken_; }
  [[nodiscard]] bool holds_a_part() const { return !pending_.empty(); }
  // What it takes of memory beyond a small buffer, which is everybody's.
  [[nodiscard]] std::size_t held_bytes() const {
    return pending_.capacity() > kSmallBuffer ? pending_.capacity() - kSmallBuffer : 0;
  }

 private:
  std::string pending_;
  std::string broken_;
};

}  // namespace trimtab::net
