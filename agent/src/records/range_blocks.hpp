#pragma once

// What kernels have done for each range, by the range's id, while it is not known or not settled which pass they count
// for. The producer counts ids upwards. They are held in blocks of consecutive ids, each whole or not at all: a block
// is given room when the first of its ids is seen, if there is some; if not, all of it is refused for good, however
// late something of it comes. So of more ranges than there is room for a sample stays complete, and none is held in
// part.
//
// A block's room is given to a newer one when nothing of it has ended for `settle_ns`. Memory is constant. Pure.
// Single-threaded.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trimtab::agent {

// Of one range, or of a pass and all the ranges in it.
struct KernelWork {
  std::uint64_t device_ns = 0;
  std::uint64_t kernels = 0;
  std::uint64_t last_ns = 0;
  std::uint64_t first_ns = 0;  // when the earliest began; 0 = there is none
  std::uint32_t launches = 0;
  std::uint32_t matched = 0;  // launches that have a kernel
  void merge(const KernelWork& other);
};

class RangeBlocks final {
 public:
  struct Range {
    std::uint32_t pass = 0;  // the id of the pass that it counts for; 0 = not known yet
    KernelWork work;         // until then
  };

  // `block_ranges` must be a power of two.
  RangeBlocks(std::size_t blocks, std::uint32_t block_ranges, std::uint64_t settle_ns)
      : most_(blocks), block_ranges_(block_ranges), settle_ns_(settle_ns) {}

  // nullptr where its block is not held. `newest_ns`: kernels that ended then have been seen. Valid until the next
  // call.
  [[nodiscard]] Range* at(std::uint32_t id, std::uint64_t newest_ns);
  // Something of that range ended then: its block is in use.
  void ended(std::uint32_t id, std::uint64_t end_ns);
  // Times begin anew: every block may make room.
  void forget_times();

 private:
  // An id that lies so many blocks behind the newest one is of a producer that began to count anew.
  static constexpr std::int64_t kCountedAnew = 4096;

  struct Block {
    std::uint32_t number = 0;
    std::uint64_t last_ns = 0;
    std::vector<Range> ranges;
  };
  [[nodiscard]] Block* find(std::uint32_t number);
  [[nodiscard]] Block* admit(std::uint32_t number, std::uint64_t newest_ns);
  [[nodiscard]] bool decided(std::uint32_t number) const;
  [[nodiscard]] Block* room(std::uint64_t newest_ns);

  std::size_t most_;
  std::uint32_t block_ranges_;
  std::uint64_t settle_ns_;
  std::vector<Block> blocks_;
  std::size_t latest_ = 0;    // the index that find() found last
  std::uint32_t newest_ = 0;  // the highest number that was decided on
  bool any_ = false;
};

}  // namespace trimtab::agent
