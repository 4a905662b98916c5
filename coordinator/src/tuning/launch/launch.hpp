#pragma once

// The ranks of the job: launched, killed, crashed, silent, ended. What becomes of the phase then is the machine's.
// Sources: launch.cpp, crashes.cpp, submission.cpp (launches in a scheduler's hands).

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "tuning/machine.hpp"

namespace trimtab::coordinator {

class Launch {
 public:
  explicit Launch(Machine& machine) : m_(machine) {}

  void launch(const PlanText& plan, const std::string& variant, bool fresh, std::int64_t steps);
  // The next one's number. Where this state was set back to an older copy, agents have had later launches, and start
  // none of those again.
  [[nodiscard]] std::uint64_t next_number() const { return std::max(m_.state.launch, seen_) + 1; }
  Next kill(AfterKill after, KillReach reach = KillReach::kLaunch);
  // The job ends: a node that is away is not waited for.
  [[nodiscard]] Next kill_reachable(AfterKill after, KillReach reach = KillReach::kLaunch);
  // It does, and a node that its last steps or its ranks' end wait for has not come back: it goes without. Nothing
  // where that is not so.
  [[nodiscard]] std::optional<Next> end_without_lost();
  [[nodiscard]] Next handle(const CommandFinished& launched);
  // The first step of all ranks has come.
  void runs();
  // With no plan left that runs. State and snapshots stay as they are.
  void halt();
  // False when it was not.
  [[nodiscard]] bool resume_halted();

  [[nodiscard]] Next crashed(const Reason& reason, const std::string& why);
  // The incumbent's ranks have crashed, or do not come to it.
  [[nodiscard]] Next relaunch(const Reason& reason, const std::string& why);
  [[nodiscard]] Next handle(std::int32_t rank, const RankConnected& connected);
  [[nodiscard]] Next handle(std::int32_t rank, const RankExited& exited);
  [[nodiscard]] Next handle(std::int32_t rank, const RankSubmission& submission);
  void handle(const NodeLost& lost);
  // Ranks that the returning agent should look after and does not have ended while it was away.
  [[nodiscard]] Next check_ranks(const NodeBack& back);
  // "n0:/var/…/rank-0.log", of the present launch; empty: not known, as after a coordinator's end.
  [[nodiscard]] const std::string& log_of_rank_0() const { return log_of_rank_0_; }
  void see(std::uint64_t launch) { seen_ = std::max(seen_, launch); }

  // Ranks said something.
  void live() { moved_at_ = told_at_ = m_.now.monotonic; }
  // They say nothing, and yet live.
  void take(const RankLives& lives);
  [[nodiscard]] bool live_within(Nanoseconds time) const { return m_.now.monotonic - moved_at_ <= time; }
  // For longer than they may be silent.
  [[nodiscard]] bool is_silent() const;
  [[nodiscard]] Next silent();

 private:
  [[nodiscard]] Next launch_until_it_begins(const Reason& reason, const std::string& why);
  [[nodiscard]] Next give_up_incumbent(const Reason& reason, const std::string& why);
  [[nodiscard]] Next launch_again(const std::string& why);
  [[nodiscard]] Next untuned_run_failed(const std::string& why);
  void tell_output(std::int32_t rank, const RankExited& exited);
  [[nodiscard]] Next interrupted(const RankSubmission& submission);

  Machine& m_;
  Nanoseconds moved_at_{0};          // the last sign of life
  Nanoseconds told_at_{0};           // the last that was no processor time
  std::uint64_t untold_launch_ = 0;  // of which people were told that it tells no step
  Nanoseconds silence_told_{-1};     // since when ranks were silent when people were last told
  Nanoseconds launched_at_{0};
  std::uint64_t seen_ = 0;  // the latest that an agent has had
  std::set<std::int32_t> ended_;
  std::string first_end_;  // of a submitted launch's ranks, in words
  std::string log_of_rank_0_;
  std::string output_told_;      // the last crashed rank's last lines that people were told, without digits
  std::string submission_told_;  // what people were last told of how the launch fares
};

}  // namespace trimtab::coordinator
