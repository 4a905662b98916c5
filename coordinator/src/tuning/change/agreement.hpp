#pragma once

// One live plan change, as the coordinator sees it (docs/protocols.md, "A live plan change"): propose, acknowledgement
// of every rank, commit, every rank active. Pure; what belongs to another epoch is ignored, so late and repeated
// messages change nothing.

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/clock.hpp"
#include "tuning/change/change_phases.hpp"

namespace trimtab::coordinator {

class Agreement {
 public:
  // What a message did to the change.
  enum class Outcome {
    kNothing,
    kAllAcknowledged,  // commit now, at commit_step()
    kAllActive,
    kRefused,
    kFailed,
  };

  Agreement(std::uint64_t epoch, std::int32_t world_size, Nanoseconds deadline);

  [[nodiscard]] Outcome acknowledge(std::int32_t rank, std::uint64_t epoch, std::int64_t step);
  [[nodiscard]] Outcome refuse(std::uint64_t epoch);
  [[nodiscard]] Outcome activate(std::int32_t rank, std::uint64_t epoch, Nanoseconds switch_time,
                                 const ChangePhases& phases = {});
  [[nodiscard]] Outcome fail(std::uint64_t epoch);

  // Later than every acknowledged step and than `latest_step`.
  [[nodiscard]] std::int64_t commit_step(std::int64_t latest_step) const;
  // The commit goes out: from now on `deadline` counts.
  void commit(std::int64_t step, Nanoseconds deadline);

  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  [[nodiscard]] bool committed() const { return committed_; }
  [[nodiscard]] std::int64_t committed_step() const { return committed_step_; }
  [[nodiscard]] bool anybody_active() const { return !active_.empty(); }
  [[nodiscard]] bool overdue(Nanoseconds now) const { return now > deadline_; }
  // The slowest rank's.
  [[nodiscard]] Nanoseconds switch_time() const { return switch_time_; }
  [[nodiscard]] const ChangePhases& phases() const { return phases_; }
  [[nodiscard]] std::string missing_ranks() const;  // "1, 3": who has not acknowledged, or is not active once committed

 private:
  std::uint64_t epoch_;
  std::int32_t world_size_;
  Nanoseconds deadline_;
  bool committed_ = false;
  std::int64_t committed_step_ = 0;
  std::map<std::int32_t, std::int64_t> acknowledged_;
  std::set<std::int32_t> active_;
  Nanoseconds switch_time_{0};
  ChangePhases phases_;
};

}  // namespace trimtab::coordinator
