#pragma once

// Buffers of CUPTI's records made by hand, with the strides of a release, and an iterator over them. Bytes beyond the
// declared prefix are zero.

#include <cstdint>
#include <cstring>
#include <vector>

#include "cupti/cupti_library.hpp"

namespace activity_rig {

using namespace trimtab::inject;

enum class Release { k11_8, k12_0, k13_0 };

inline std::size_t stride(std::uint32_t kind, Release release) {
  const bool v12 = release != Release::k11_8;
  const bool v13 = release == Release::k13_0;
  switch (kind) {
    case cupti::kKindConcurrentKernel:
      return v13 ? 216 : v12 ? 208 : 200;
    case cupti::kKindMemcpy:
    case cupti::kKindMemcpy2:
      return v13 ? 96 : 88;
    case cupti::kKindMemset:
      return v13 ? 88 : 80;
    case cupti::kKindGraphTrace:
      return v12 ? 56 : 48;
    case cupti::kKindOverhead:
      return v13 ? 56 : v12 ? 48 : 40;
    case cupti::kKindExternalCorrelation:
      return 24;
    case cupti::kKindDriver:
    case cupti::kKindRuntime:
      return 40;
    default:
      return 0;
  }
}

template <Release release>
cupti::Result next_record(std::uint8_t* buffer, std::size_t valid_bytes, cupti::Activity** record) {
  auto* current = reinterpret_cast<std::uint8_t*>(*record);
  std::uint8_t* next = current == nullptr ? buffer : current + stride((*record)->kind, release);
  if (next + 8 > buffer + valid_bytes) return cupti::kMaxLimitReached;
  auto* activity = reinterpret_cast<cupti::Activity*>(next);
  const std::size_t bytes = stride(activity->kind, release);
  if (bytes == 0 || next + bytes > buffer + valid_bytes) return 21;
  *record = activity;
  return cupti::kSuccess;
}

inline cupti::Library library_of(Release release) {
  cupti::Library library;
  library.version = release == Release::k13_0 ? 130001 : release == Release::k12_0 ? 24 : 18;
  library.get_next_record = release == Release::k13_0   ? next_record<Release::k13_0>
                            : release == Release::k12_0 ? next_record<Release::k12_0>
                                                        : next_record<Release::k11_8>;
  return library;
}

// Appends records.
class ActivityBuffer {
 public:
  explicit ActivityBuffer(Release release) : release_(release) {}

  template <typename T>
  ActivityBuffer& add(const T& activity) {
    const std::size_t bytes = stride(activity.kind, release_);
    const std::size_t at = used_;
    used_ += bytes;
    words_.resize((used_ + 7) / 8);
    std::memcpy(data() + at, &activity, sizeof(T) < bytes ? sizeof(T) : bytes);
    return *this;
  }
  std::uint8_t* data() { return reinterpret_cast<std::uint8_t*>(words_.data()); }
  [[nodiscard]] std::size_t bytes() const { return used_; }

 private:
  Release release_;
  std::size_t used_ = 0;
  std::vector<std::uint64_t> words_;
};

inline cupti::KernelActivity kernel(const char* name, std::uint64_t start, std::uint64_t end) {
  cupti::KernelActivity activity{};
  activity.kind = cupti::kKindConcurrentKernel;
  activity.start = start;
  activity.end = end;
  activity.device = 3;
  activity.context = 1;
  activity.stream = 7;
  activity.grid[0] = 1 << 20;
  activity.grid[1] = 65535;
  activity.grid[2] = 1;
  activity.block[0] = 1024;
  activity.block[1] = activity.block[2] = 1;
  activity.correlation = 42;
  activity.name = name;
  return activity;
}

}  // namespace activity_rig
