#pragma once

// A real record ring as the injected library lays it out (schema/record.hpp), written by a job that is made up: passes
// of operators with six kernels each, their launches, every fourth pass with a collective, a step's range around 120
// passes.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/random.hpp"
#include "schema/record.hpp"

namespace trimtab {

class MadeUpRing {
 public:
  // The job's own pace, by its stamps, and when it began (CLOCK_REALTIME). Aborts where there is no memory for it.
  MadeUpRing(std::uint64_t kernels_per_second, std::uint64_t begin_ns);
  ~MadeUpRing();
  MadeUpRing(const MadeUpRing&) = delete;
  MadeUpRing& operator=(const MadeUpRing&) = delete;

  // One of its own for a reader.
  [[nodiscard]] int descriptor() const;
  // Writes whole passes while there is room for them; never so fast that a record is dropped.
  void fill();
  [[nodiscard]] std::uint64_t kernels() const { return correlation_; }
  [[nodiscard]] std::uint64_t records() const { return head_; }
  // What the reader has not read yet.
  [[nodiscard]] std::uint64_t unread() const;
  // The job is over.
  void close();

 private:
  static constexpr std::uint32_t kNames = 1024;
  static constexpr std::uint32_t kSlots = 1U << 17;
  static constexpr std::uint32_t kKernelsPerPass = 6;
  static constexpr std::uint32_t kPassesPerStep = 120;
  static constexpr std::uint32_t kSignatures = 60;

  void write_pass();
  void write_kernel(std::uint32_t pass, std::uint32_t kernel, std::uint32_t range);
  void write_range(std::uint32_t name, std::uint32_t id, std::uint64_t begin, std::uint16_t depth);
  void publish(const record::RecordSlot& fields);
  std::uint32_t name(const std::string& text);
  record::RecordSlot& slot(std::uint64_t ticket);

  int descriptor_;
  std::uint64_t pace_ns_;
  char* memory_ = nullptr;
  record::RingHeader* header_ = nullptr;
  std::uint32_t names_ = 0;
  std::uint32_t domain_ = 0, step_ = 0, nccl_ = 0;
  std::uint32_t kernels_[kSignatures];
  std::uint32_t passes_[kPassesPerStep];
  std::uint64_t head_ = 0;
  std::uint32_t pass_ = 0, range_ = 0, correlation_ = 0;
  std::uint64_t now_;
  std::uint64_t step_begin_ = now_;
  Random random_{1};
};

}  // namespace trimtab
