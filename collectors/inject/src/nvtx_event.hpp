#pragma once

// An NVTX event attribute structure as the recorder's Event. The structure belongs to the program: its size field says
// how much of it there is, and every field may be nonsense.

#include "nvtx_abi.hpp"
#include "recorder.hpp"
#include "wide_text.hpp"

namespace trimtab::inject::nvtx {

// Keeps the converted text of a wide message alive as long as itself.
class DecodedEvent {
 public:
  explicit DecodedEvent(const EventAttributes* attributes);
  [[nodiscard]] const Event& event() const { return event_; }

 private:
  WideText wide_;
  Event event_;
};

// False for a payload that is no number, or not one that an int64 can stand for.
bool decode_payload(const EventAttributes& attributes, std::int64_t& payload);

// Handles go through the program as pointers.
inline void* to_pointer(std::uint32_t handle) {
  return reinterpret_cast<void*>(std::uintptr_t{handle});
}
inline std::uint32_t to_handle(const void* pointer) {
  const auto value = reinterpret_cast<std::uintptr_t>(pointer);
  return value <= UINT32_MAX ? static_cast<std::uint32_t>(value) : 0;
}

}  // namespace trimtab::inject::nvtx
