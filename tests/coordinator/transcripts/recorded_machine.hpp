#pragma once

// A tuning machine that a story drives event by event, and a transcript of it. Searches are answered at once.

#include <functional>
#include <map>
#include <string>

#include "base/clock.hpp"
#include "transcript.hpp"

namespace trimtab::coordinator {

class RecordedMachine {
 public:
  // `found`: by purpose, the plan that its search finds and what that is predicted to take; none = the search is not
  // answered.
  using Found = std::map<SearchFor, std::pair<std::string, double>>;
  RecordedMachine(std::string name, TuningState state, Found found = {});

  ManualClock clock;

  void say(const std::string& line) { transcript_.say(line); }
  void begin();
  void resume();
  void feed(const Event& event);
  void pass(Nanoseconds time);
  // Time passes, second by second.
  void tick(int seconds);
  // Steps of all ranks, of the latest launch and epoch, each `ms`.
  void steps(int count, double ms);
  // What was asked of the nodes is done.
  void carry_out(bool ok = true, const std::string& error = "");
  // Only what was asked of them so far.
  void carry_out(CommandKind kind);
  // The ranks of a node are of the present launch, one a node.
  void come_back(const std::string& node, const std::string& fingerprint = "", bool with_ranks = true);
  void check(bool with_state = false);

  [[nodiscard]] const TuningState& state() const { return tuning_.state(); }
  [[nodiscard]] const Tuning& tuning() const { return tuning_; }

 private:
  void take(const std::string& call, const Event* event, Outcome outcome);
  void answer(const SearchPlans& search);

  std::string name_;
  Tuning tuning_;
  Found found_;
  Transcript transcript_;
  std::int64_t step_ = 10;
};

// A job of one rank on each of the nodes n0, n1, … that trains its plan "all", 100 ms a step; its first launch runs.
[[nodiscard]] TuningState trained_state(const Job& job, int nodes);

}  // namespace trimtab::coordinator
