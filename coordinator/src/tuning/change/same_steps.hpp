#pragma once

// Losses of a trial's launches, step by step. All of them begin at the same checkpoint, so the same step has the same
// samples under either plan, and its loss may differ by what the class of the change allows and no more: "exact" hardly
// at all, "rounding" by a few per cent where sums of another order have grown apart, "statistical" by what other random
// numbers do. Where the incumbent's own launches differ from each other, that much is allowed besides. Pure.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace trimtab::coordinator {

class SameSteps {
 public:
  static constexpr std::size_t kLeast = 5;   // steps that both have told, before anything is said
  static constexpr double kExact = 1e-3;     // of a loss: atomics of a GPU stay far below
  static constexpr double kRounding = 0.03;  // of a loss, in the median step
  static constexpr double kRerun = 3;        // times what the incumbent's own launches differ
  static constexpr double kStatistical = 4;  // standard errors of the mean difference

  // Of a change of this class (Job::change_class).
  explicit SameSteps(std::string_view change_class = "") : change_class_(change_class) {}

  // Of the launch of that number, which runs the incumbent.
  void incumbent(std::uint64_t launch, std::int64_t step, double loss);
  // Of a launch that runs the candidate, whichever of the two comes first.
  void candidate(std::int64_t step, double loss) { candidate_[step] = loss; }
  // Why the candidate has to go: its loss differs by more than the class allows. Empty: it does not, or too few steps
  // have been told by both.
  [[nodiscard]] std::string why() const;

 private:
  std::string change_class_;
  std::uint64_t first_launch_ = 0;
  std::map<std::int64_t, double> incumbent_;
  std::map<std::int64_t, double> candidate_;
  double rerun_ = 0;  // the most that one of the incumbent's steps differed, relative
};

}  // namespace trimtab::coordinator
