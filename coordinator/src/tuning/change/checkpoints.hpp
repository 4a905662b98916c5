#pragma once

// When a job that is restarted may be stopped for a trial, and whether it came back from that with all that it had
// trained. Until a job has shown that it saves when it is asked to end, it is stopped only just after a checkpoint that
// it wrote by itself. One that does not go on from there is not stopped again.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "tuning/change/stop_record.hpp"
#include "tuning/event.hpp"
#include "tuning/outcome.hpp"
#include "tuning/view.hpp"

namespace trimtab::coordinator {

class Checkpoints {
 public:
  Checkpoints(StopRecord& record, const View& view, Outcome& out) : record_(record), view_(view), out_(out) {}

  // Of the job's own launch. True when the checkpoint is whole on every node of the job, now.
  [[nodiscard]] bool take(std::int32_t rank, const RankSaved& saved);
  // What a trial's copy of the checkpoint takes is told once, before the first. Empty: one may copy it; else why not.
  [[nodiscard]] std::string price_copy();
  // No step has been told since the checkpoint became whole, or the job saves when it is asked to end.
  [[nodiscard]] bool may_stop() const;
  // A checkpoint is waited for: people are told, and what is at risk at a first stop.
  void announce();
  // The job itself is ended for a trial.
  void stop();
  // Its ranks are dead: the steps that they told on the way count.
  void stopped();
  // A launch's first step. Empty: it went on where it should; else the job is not stopped any more, and why.
  [[nodiscard]] std::string judge(std::int64_t first_step);
  // The job itself runs again: steps that are trained again are told.
  void resumed(std::int64_t first_step);
  // Other ranks: what was seen of a checkpoint was theirs.
  void forget();

 private:
  void take_prices();
  void tell_restless(const std::string& node, const std::string& file);

  StopRecord& record_;
  const View& view_;
  Outcome& out_;
  std::optional<std::int64_t> writing_since_;  // the last step before the first write
  std::set<std::string> whole_on_;             // nodes
  std::int64_t whole_at_ = -1;                 // the last step when it became whole on all of them
  std::int64_t whole_since_ = -1;              // and before its first write
  std::map<std::string, CopyPrice> prices_;    // of the checkpoint that is becoming whole, by node
  bool announced_ = false;
  bool priced_ = false;    // people were told
  bool restless_ = false;  // and of files that do not rest
};

}  // namespace trimtab::coordinator
