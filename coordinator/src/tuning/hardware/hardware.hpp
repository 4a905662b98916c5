#pragma once

// Watches the hardware beneath a job: does the incumbent still take what it took, what do looks find, how fast are
// nodes of other hardware. It says when tuning should begin again, and what for; whether that is done is the machine's.
// Sources: drift.cpp (steps), looks.cpp, slower.cpp (what looks find slower), other_hardware.cpp.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schema/cluster.hpp"
#include "tuning/hardware/change_point.hpp"
#include "tuning/hardware/hardware_state.hpp"
#include "tuning/hardware/look_history.hpp"
#include "tuning/outcome.hpp"
#include "tuning/search/search_requests.hpp"
#include "tuning/view.hpp"

namespace trimtab::coordinator {

class Hardware {
 public:
  Hardware(HardwareState& known, const View& view, SearchRequests& searches, Outcome& out)
      : known_(known), view_(view), searches_(searches), out_(out) {}

  // A warm step of the incumbent, in a block of its own or outside of all: from the first one measured to the job's
  // last they are one series, in which an adopted plan's steps count as the trial has measured them beside those of the
  // plan before it. What it makes sure, if anything.
  [[nodiscard]] std::optional<StepChange> add_step(const JobStep& step);
  // Another plan is the incumbent, which takes `ratio` times as long as the one before it.
  void change_plan(double ratio, double low, double high);
  void forget_steps() { change_point_.reset(); }
  // The drift that the change is. `during`: what the job was about; empty = it trained.
  Drift notice(const StepChange& change, std::int64_t step, std::string during);
  // A drift was noticed, and it is time to do something about it.
  [[nodiscard]] bool is_due() const;
  void note_wait();
  // Probes are asked for that a drift waits for. explained(): they have come, not_explained(): they will not. True when
  // the job is to be tuned again.
  void probe();
  [[nodiscard]] bool explained(const HardwareProbed& probed);
  [[nodiscard]] bool not_explained(const std::string& why);
  void begin_retuning();
  // Whether ranks measure what has become doubtful before plans are searched.
  [[nodiscard]] bool measures_first() const { return known_.measures_first; }
  [[nodiscard]] std::uint64_t next_measuring() { return ++known_.measurings; }
  // They have, or why they have not.
  void take_measured(const Remeasured& again);
  // Which of the costs the drift has made wrong, and what they are taken to be until trials measure again.
  void note_stale(const SearchReply& reply);

  // At the hardware as it is under the plan that the job has settled on.
  void look();
  // Beside the first search for a trial, which hides the time that it takes. No trial begins meanwhile, each would
  // disturb the other: what the search has found waits.
  void take_first_look();
  [[nodiscard]] bool takes_first_look() const { return first_look_since_.has_value(); }
  [[nodiscard]] bool first_look_is_late() const;
  void wait(const SearchReply& reply) { waiting_reply_ = reply; }
  struct FirstLook {
    bool search_again = false;  // what was searched was of the hardware as it was taken to be
    std::optional<SearchReply> reply;
  };
  [[nodiscard]] FirstLook end_first_look();
  void tick();
  void account_look(const JobStep& step);
  // What a look has told. False when there was nothing.
  [[nodiscard]] bool take_look(const HardwareProbed& probed);
  // True when the job is to be tuned again for what looks agree on.
  [[nodiscard]] bool judge_looks();

  // Another plan is searched for, around what has got slower, when it is time for that; then what the search has found.
  // True when the job is to be tuned again.
  void search_around_slower();
  [[nodiscard]] bool take_slower(const SearchReply& reply);
  // As the job would be tuned again: what earlier trials measured is a prior, and what they tried may be tried again.
  [[nodiscard]] SearchTask task_around_slower() const;

  // A job that begins on nodes of several fingerprints.
  void find_other_hardware();
  // By what was measured of both; the look before the first trial tells of the nodes that are left.
  void take_measured_speeds(const std::map<std::string, double>& speeds);
  // A node came back as other hardware than it was, a part of `cluster` now. True when nobody has the devices any more
  // that costs were measured on: those that most have take their place.
  [[nodiscard]] bool replace(const NodeBack& back, const std::string& former, const Cluster& cluster);
  // The job goes on with other nodes: links are what they were, devices have other numbers.
  void begin_anew();

 private:
  [[nodiscard]] bool goes_on_as_kept(const std::string& why);
  void leave_drift(const std::string& why);
  void add_drift(const Drift& drift);
  void forget_late_baseline(const Drift& drift);
  [[nodiscard]] std::map<std::int32_t, double> slowed_devices() const;

  void end_look();
  void take_faults(const std::vector<LinkFault>& told);
  // Of links that have become worse since then, which makes what goes over them doubtful.
  [[nodiscard]] std::vector<LinkFault> doubt_links(std::int64_t since_step);
  void take_baseline(const std::vector<Probe>& probes);
  [[nodiscard]] bool is_recovery(const Finding& one) const;
  [[nodiscard]] bool take_recovery(const std::vector<Finding>& recovered);

  void take_slower(const std::vector<Finding>& slower);
  void forget_slower(const std::vector<Finding>& changes);
  [[nodiscard]] bool may_search_around_slower() const;

  void forget_hardware_of(const std::string& node);
  [[nodiscard]] bool price_other_hardware(const std::vector<Probe>& probes);

  HardwareState& known_;
  const View& view_;
  SearchRequests& searches_;
  Outcome& out_;
  std::optional<ChangePoint> change_point_;
  Nanoseconds looked_at_{0};                     // when the last look began
  std::optional<Nanoseconds> look_since_;        // the one that is going on in training
  double look_ms_ = 0;                           // what steps took longer meanwhile
  bool search_again_ = false;                    // what a look has told changes what is searched
  bool first_looked_ = false;                    // beside the plan that tuning begins from
  std::optional<Nanoseconds> first_look_since_;  // that trials wait for
  std::optional<SearchReply> waiting_reply_;     // meanwhile
  LookHistory history_;
  int looks_again_ = 0;                // at once, one after the other, that have been asked for
  std::vector<Finding> slower_;        // what looks agree has got slower, and nothing was made of
  bool slower_is_new_ = false;         // no search has had it
  std::int64_t slower_told_step_ = 0;  // by which steps would have told of it
};

}  // namespace trimtab::coordinator
