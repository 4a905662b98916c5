#pragma once

// The kernels that a rank was seen to run, by signature: name, grid and block; of a CPU job the ranges by name. Keeps
// each signature's times. Bounded: what comes beyond `most` is counted under number 0 and keeps no times. Pure.
// Single-threaded.

#include <unordered_map>

#include "kernels/kernel_name.hpp"
#include "records/ring_reader.hpp"
#include "schema/cost.hpp"

namespace trimtab::agent {

struct KernelSignature {
  std::string_view name;  // lives as long as the reader that gave it
  std::array<std::uint32_t, 3> grid{};
  std::array<std::uint32_t, 3> block{};
  KernelClass kernel_class = KernelClass::kOther;
  std::optional<CollectiveKernel> collective;  // of NCCL's kernels
  Statistics duration_ns;                      // since the last take
  std::uint64_t total_ns = 0;                  // ever
  std::uint64_t count = 0;
  std::uint64_t shown_ns = 0;  // total_ns and count when busiest() was last asked
  std::uint64_t shown_count = 0;
};

// What took the most time since it was last asked.
struct BusyKernel {
  std::string name;
  KernelClass kernel_class = KernelClass::kOther;
  bool collective = false;
  std::uint64_t total_ns = 0;
  std::uint64_t count = 0;
};

class KernelSignatures final {
 public:
  explicit KernelSignatures(std::size_t most = 4096);

  // The number of the signature of a kernel (kKernel, kGraph) or of a range.
  [[nodiscard]] std::uint32_t number_of(const RangeRecord& record);
  // `keep`: its time becomes a cost.
  void add(std::uint32_t number, std::uint64_t duration_ns, bool keep);
  [[nodiscard]] const KernelSignature& at(std::uint32_t number) const { return signatures_[number]; }

  // Times since the last take, as costs of kind `kernel`.
  [[nodiscard]] std::vector<Cost> take();
  // Of computations and of collectives at most `most` each, in order of their time.
  [[nodiscard]] std::vector<BusyKernel> busiest(std::size_t most);
  // The key's subject: "name<<<grid, block>>>".
  [[nodiscard]] static std::string text_of(const KernelSignature& signature);
  [[nodiscard]] std::uint64_t overflow() const { return signatures_[0].count; }
  void clear();

 private:
  struct Key {
    const char* name = nullptr;  // texts are interned by the reader: equal pointers are equal names
    std::array<std::uint32_t, 3> grid{};
    std::array<std::uint32_t, 3> block{};
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  std::size_t most_;
  std::vector<KernelSignature> signatures_;
  std::unordered_map<Key, std::uint32_t, KeyHash> numbers_;
};

}  // namespace trimtab::agent
