#include "local/local_frames.hpp"

#include <cstdint>

#include "base/check.hpp"

namespace trimtab::net {

namespace {

std::uint32_t length_at_front(std::string_view bytes) {
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < kLocalLengthBytes; ++i) {
    length |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return length;
}

}  // namespace

std::string frame_for(std::string_view json) {
  TRIMTAB_ASSERT(json.size() <= kMaxLocalFrameBytes, "a frame of ours fits the limit");
  const auto length = static_cast<std::uint32_t>(json.size());
  std::string frame;
  frame.reserve(kLocalLengthBytes + json.size());
  for (std::size_t i = 0; i < kLocalLengthBytes; ++i) frame.push_back(static_cast<char>((length >> (8 * i)) & 0xffU));
  frame.append(json);
  return frame;
}

std::optional<LocalFrameCutter::Frame> LocalFrameCutter::next() {
  if (!broken_.empty() || pending_.size() < kLocalLengthBytes) return std::nullopt;
  const std::size_t length = length_at_front(pending_);
  if (length == 0 || length > kMaxLocalFrameBytes) {
    broken_ = "a frame must have 1 to " + std::to_string(kMaxLocalFrameBytes) + " bytes, but one of " +
              std::to_string(length) + " was announced";
    return std::nullopt;
  }
  const std::size_t whole = kLocalLengthBytes + length;
  if (pending_.size() < whole) return std::nullopt;
  Frame frame{pending_.substr(kLocalLengthBytes, length), pending_.size() == whole};
  pending_.erase(0, whole);
  // Who has once sent a large frame does not keep its memory.
  if (held_bytes() > 0 && pending_.size() <= kSmallBuffer) pending_.shrink_to_fit();
  return frame;
}

}  // namespace trimtab::net
