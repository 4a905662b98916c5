#pragma once

// What quick probes of the hardware say of a drift: which device or link is not what it was. Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tuning/document_text.hpp"

namespace trimtab::coordinator {

// One fixed piece of work, timed: a device computes (device >= 0), or a link moves bytes, inside of a node (peer empty)
// or between two.
struct Probe {
  std::int32_t device = -1;
  std::string node;
  std::string peer;
  std::string level;  // of a link: "intra_node", "inter_node"
  double ms = 0;
  // Of a device: "computation" and "memory" of a node's CPUs, which are all of its devices; "clock" of a GPU;
  // "training PLAN": what its rank computed in a step of that plan. Only probes of the same work are compared.
  std::string work = {};
  double spread = 0;        // relative, of the repetitions: as much is no change
  std::string remark = {};  // for people
  // Of a link whose ends' interfaces tell what they carry: `ms` and `spread` are then as if the probe had the link to
  // itself, these as it had it beside what others moved. 0 = not told.
  double shared_ms = 0;
  double shared_spread = 0;
  double used = 0;           // by others, the part of the link
  double round_trip_ms = 0;  // of a link, the shortest; 0 = not told
  // Of several takes, of which this is the middle one: the shortest and the longest, as a part of it.
  double shortest = 1;
  double longest = 1;
};
inline constexpr double kProbedLinkBytes = 1 << 20;  // a link's `ms` is the time that these take
// Of the same device and work, or of the same link.
[[nodiscard]] bool same_subject(const Probe& a, const Probe& b);
// Takes of the same probes, one after the other, as one: of each subject the middle one. What one lacks the others
// tell.
[[nodiscard]] std::vector<Probe> middle_of(const std::vector<std::vector<Probe>>& takes);
// The work of probes that are taken from a job's own steps.
[[nodiscard]] std::string training_work(const std::string& plan_hash);
[[nodiscard]] bool in_training(const Probe& probe);
// The share of other nodes' speed that a node's devices have; nothing where either was not probed. `without`: nodes
// that it is not compared with.
[[nodiscard]] std::optional<double> speed_beside_others(const std::string& node, const std::set<std::string>& without,
                                                        const std::vector<Probe>& probes);

struct Finding {
  Probe probe;
  double share = 1;       // of its earlier speed
  double spread = 0;      // of the probes
  bool whole = false;     // compared is the whole link, not what others left of it
  bool latency = false;   // compared are round trips, not bandwidth
  double before_ms = 0;   // of them
  double apart = 0;       // the logarithm of what lies between all takes before and all now; less than 0: they overlap
  double confidence = 1;  // that it has changed at all, beside all that was compared with it
  [[nodiscard]] bool is_link() const { return probe.device < 0; }
};

// So sure must be who names a device or a link. Below it is said what is not known.
inline constexpr double kNamedFrom = 0.95;

// What has clearly changed, the largest change first: beyond what repetitions and the other probes scatter, and in all
// takes, each with a confidence of kNamedFrom or more. Probes of what only one side knows are left out. What a rank
// computes in its steps is compared with its past, and where a link differs, however surely, too, with what the other
// ranks have lost: who waits for a link seems slow.
[[nodiscard]] std::vector<Finding> diagnose(const std::vector<Probe>& before, const std::vector<Probe>& now);
// The rest of what differs by as much: nobody may be blamed for it.
[[nodiscard]] std::vector<Finding> not_sure(const std::vector<Probe>& before, const std::vector<Probe>& now);
// "99.2 %", "more than 99.9 %": of all of them together.
[[nodiscard]] double confidence_of(const std::vector<Finding>& findings);
[[nodiscard]] std::string confidence_text(double confidence);
// Every link that both know, its bandwidth and its round trips each compared by themselves: as diagnose() has them
// where they have clearly changed, with a share of 1 where they have not.
[[nodiscard]] std::vector<Finding> compared_links(const std::vector<Probe>& before, const std::vector<Probe>& now);
// Of round trips compared: on busy machines the shortest is a wake-up longer at times.
[[nodiscard]] bool is_clear_latency(const Finding& finding);
// Those that can be why steps got slower, or faster.
[[nodiscard]] std::vector<Finding> explaining(std::vector<Finding> findings, bool slower);
// "the link of node n3 to n4 is at 38 % of its bandwidth, of which others used 70 % while it was probed"; the first few
// of many.
[[nodiscard]] std::string to_text(const std::vector<Finding>& findings);

// By device, what the findings leave of its speed. What ranks computed in their steps says more of a device than the
// CPUs of its node, which count where nothing else was found. `cluster`: which devices are on which node.
[[nodiscard]] std::map<std::int32_t, double> device_shares(const std::vector<Finding>& findings,
                                                           const ClusterText& cluster);

}  // namespace trimtab::coordinator
