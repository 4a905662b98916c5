#pragma once

// Finds the training step in a job that says nothing of its steps: the period of the sequence of its kernels on one
// stream, or of its collectives. Symbols are hashes of signatures, in the order of their beginnings.
//
// A step begins with an anchor: the rarest symbol that comes at even distances all along the latest stretch and between
// whose occurrences the same kernels run (the multisets agree to three quarters; single kernels may come and go). The
// longest such period counts, since layers and microbatches repeat within a step; but one that is told apart by less
// than `min_own` kernels of its own is a step with something every so often (a loss that is read every tenth step). A
// period is believed from `min_periods` repetitions and `min_ns` on, looked for anew as symbols double (the first
// microbatches look like steps until the first optimizer runs), and given up after three steps that do not fit. Memory:
// 4 bytes for each of `window` symbols. A step of more than a fifth of them is not found. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace trimtab::agent {

struct PeriodOptions {
  std::size_t window = std::size_t{1} << 17;
  std::size_t min_symbols = 64;
  std::size_t min_periods = 5;
  std::uint64_t min_ns = 1'000'000'000;
  std::size_t min_own = 3;
};

struct StepPeriodFound {
  std::uint64_t kernels = 0;  // of a step
  double confidence = 0;      // 0 ... 1: how alike the steps are, and how many have been seen
  std::uint64_t steps = 0;    // that fitted, since it was found
};

class StepPeriod final {
 public:
  explicit StepPeriod(PeriodOptions options = {});

  enum class Boundary {
    kNone,
    kFirst,    // a step begins here; what was before is no whole step
    kRegular,  // a step ends here, and the next begins
  };
  // `begin_ns`: when this kernel began; not before the one given before it.
  Boundary add(std::uint32_t symbol, std::uint64_t begin_ns);

  // What is believed now.
  [[nodiscard]] std::optional<StepPeriodFound> found() const;
  void reset();

 private:
  struct Anchor {
    std::uint32_t symbol = 0;
    std::size_t per_step = 1;
    double kernels = 0;
    double likeness = 0;
    std::size_t own = 0;  // kernels that come as seldom as the anchor
    std::size_t repetitions = 0;
  };
  void look();
  // `left`: how many more symbols may be compared.
  [[nodiscard]] std::optional<Anchor> look_at(const std::vector<std::uint32_t>& stretch, std::size_t& left) const;
  [[nodiscard]] std::optional<Anchor> anchor_from(const std::vector<std::uint32_t>& stretch,
                                                  const std::vector<std::size_t>& at, std::size_t per_step,
                                                  std::size_t& left) const;
  Boundary follow(std::uint32_t symbol);
  Boundary misfit();

  PeriodOptions options_;
  std::vector<std::uint32_t> ring_;
  std::uint64_t seen_ = 0;      // symbols since the ring was emptied
  std::uint64_t look_at_ = 0;   // when `seen_` reaches this
  std::uint64_t begin_ns_ = 0;  // of the first symbol in the stretch
  std::uint64_t newest_ns_ = 0;

  std::optional<Anchor> anchor_;
  std::uint64_t steps_ = 0;
  std::uint64_t since_ = 0;      // symbols since the latest boundary
  std::size_t occurrences_ = 0;  // of the anchor, since then
  bool in_step_ = false;         // a boundary has been seen since the period was found
  int misfits_ = 0;              // in a row
};

}  // namespace trimtab::agent
