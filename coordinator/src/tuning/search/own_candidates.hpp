#pragma once

// Which settings of a job's own knobs are worth a trial. Nothing prices them, so all that is known is what trials have
// measured: the logarithm of a step's time is taken for a sum of an effect of each knob's value and a little of their
// combination (a Gaussian process), where values of a number next to each other have like effects. Pure.

#include <string>
#include <vector>

#include "schema/own_knobs.hpp"
#include "tuning/search/gaussian_process.hpp"

namespace trimtab::coordinator {

// A measured step's time under these settings.
struct OwnMeasurement {
  OwnSettings settings;  // what differs from what is written
  double ms = 0;
  double relative_sigma = 0;
};

struct OwnCandidate {
  OwnSettings settings;
  double log_gain = 0;  // of the incumbent's time over its own
  double gain_sigma = 0;
};

// What differs from the incumbent in one knob, and the combination that is expected to be fastest, in no order.
// `written`: of the knobs' keys, as the job file has them. Without measurements none: the incumbent is to be
// measured first.
[[nodiscard]] std::vector<OwnCandidate> own_candidates(const std::vector<OwnKnob>& knobs, const OwnSettings& written,
                                                       const OwnSettings& incumbent,
                                                       const std::vector<OwnMeasurement>& measured);

}  // namespace trimtab::coordinator
