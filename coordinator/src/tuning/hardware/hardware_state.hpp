#pragma once

// What is known of the hardware beneath a job, and of the changes that its steps or looks have shown: the persisted
// part of Hardware. A plain value.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tuning/hardware/diagnosis.hpp"
#include "tuning/hardware/link_faults.hpp"
#include "tuning/hardware/measured_again.hpp"
#include "tuning/trial/comparison.hpp"

namespace trimtab::coordinator {

struct TuningState;

// The incumbent's step time has changed for good; or it has not, and a look at the hardware found what got faster.
struct Drift {
  std::string plan_hash;  // of the incumbent that it was noticed under
  std::int64_t since_step = 0;
  std::int64_t noticed_step = 0;
  double before_ms = 0;
  double after_ms = 0;
  bool by_look = false;                 // before_ms and after_ms are the same
  std::string during;                   // "trial 3", what the job was about when it was noticed; empty = it trained
  bool handled = false;                 // probed, and tuned again where that is wanted
  bool links = false;                   // probes found links that have changed
  bool devices = false;                 // … devices
  double confidence = 0;                // that what is named has changed; 0 = nothing is named
  std::string what;                     // both in words; empty = not known
  std::string stale;                    // the costs that it has made wrong, in words
  std::int32_t trials_before = -1;      // ids up to here measured the machine as it was; -1 = not tuned again
  bool kept = false;                    // tuned again for it, which ended with the plan that it was noticed under
  Ratio gained_before;                  // by the tuning that it ended; 1 = nothing
  std::vector<std::int32_t> gained_in;  // the trials that measured that, one after the other; none: it was compared
  bool doubts = false;                  // what it has made doubtful has been asked for, and `again` tells of that
  Remeasured again;
};

struct HardwareState {
  std::vector<Drift> drifts;                    // the latest
  std::int64_t retuned_step = 0;                // when the job was last tuned again
  std::int64_t retune_wait = 0;                 // the steps from then on in which it is not; 0 = it has not been yet
  std::vector<Probe> first_probes;              // when the costs were those that were measured
  std::int64_t first_probed_step = 0;           // when that was; 0 = before this job
  std::vector<Probe> last_probes;               // what is known: those of the last drift, else the first
  std::string probed_plan_hash;                 // of the incumbent that ran then
  std::map<std::int32_t, double> slow_devices;  // how fast, beside those that costs were measured on as they were
  std::string costs_hardware;                   // the fingerprint of those, without the job's software
  // Nodes whose devices are not those that costs were measured on, and have not been probed since; and what ranks there
  // took in training, on devices as fast as those that costs were measured on.
  std::vector<std::string> unprobed_nodes;
  std::vector<Probe> expected_there;
  std::string other_hardware;          // nodes that came back as such and have not been measured since
  bool unprofiled = false;             // no node is of the hardware any more that costs were measured on
  double looks_ms = 0;                 // what steps took longer while the hardware was looked at in training
  double dearest_look_ms = 0;          // the most of these that one look took
  bool measures_first = false;         // what the last drift has made doubtful is measured before plans are searched
  std::uint64_t measurings = 0;        // so often ranks have been asked to
  double measurings_ms = 0;            // that they stood still for it
  std::vector<LinkFault> link_faults;  // that stand

  // One was noticed, and nothing has been done about it yet.
  [[nodiscard]] bool has_open_drift() const { return !drifts.empty() && !drifts.back().handled; }
  // What ranks have measured since the hardware was last found changed.
  [[nodiscard]] std::vector<MeasuredCost> measured_again() const;
  // The job was tuned again a short while ago.
  [[nodiscard]] bool waits_to_retune(std::int64_t step) const { return step < retuned_step + retune_wait; }
  // What was tuned for was another machine.
  void forget_kept();
  // From here on these are what is known.
  void accept(const std::vector<Finding>& findings);
  // A share of a share: findings compare with the last probes, and these with those before.
  void take_device_shares(const std::vector<Finding>& findings, const ClusterText& cluster);
  void take_device_speed(std::int32_t device, double share);
  // Of probes, those of nodes and devices that are not there any more.
  template <typename Gone>
  void forget_probes(const Gone& gone) {
    std::erase_if(first_probes, gone);
    std::erase_if(last_probes, gone);
    probed_plan_hash.clear();
  }
};

[[nodiscard]] const Probe* find(const std::vector<Probe>& probes, const Probe& like);

// What has changed, as findings say it, in words.
void name_causes(const std::vector<Finding>& causes, Drift& drift);
// … and by what counters say besides.
void name_causes(const std::vector<LinkFault>& faults, Drift& drift);
// What looks found while steps take what they took.
[[nodiscard]] Drift drift_by_look(const std::vector<Finding>& findings, const TuningState& state);

}  // namespace trimtab::coordinator
