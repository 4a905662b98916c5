#include "native/step/memory_text.hpp"

#include <algorithm>
#include <cmath>

#include "native/stage/recompute_choice.hpp"

namespace trimtab::tuner {
namespace {

std::string bytes_text(double bytes) {
  return format_bytes(static_cast<Bytes>(std::llround(std::ceil(bytes))));
}

std::string operators_text(const Model& model, const Range& range) {
  const std::string& first = model.operators[range.begin].name;
  if (range.size() == 1) return "operator " + std::to_string(range.begin) + " " + first;
  return "operators " + std::to_string(range.begin) + " to " + std::to_string(range.end - 1) + ", " + first + " to " +
         model.operators[range.end - 1].name;
}

std::string ranges_text(const std::vector<Range>& ranges) {
  std::string text;
  for (const Range& range : ranges) {
    if (!text.empty()) text += ", ";
    text += "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
  }
  return text;
}

std::string remedy(const Calibration& calibration, const PricedPlan& priced, std::size_t s, bool may_recompute) {
  if (priced.kind == ScheduleKind::kInterleaved) {
    return "recompute more, or give these devices fewer stages or smaller microbatches";
  }
  if (priced.switched[s]) return "turn on more memory switches, or give the stage fewer operators";
  RecomputeFlags flags(priced.recompute.size(), 0);
  const RecomputeChoice choice =
      choose_recompute(calibration, priced.inputs[s], priced.limits[s], may_recompute, 0, flags);
  if (choice.fits) return "smallest change that fits: recompute operators " + ranges_text(choice.recompute);
  const std::string more = bytes_text(choice.excess_bytes) + " more memory on the device";
  const char* const how = may_recompute ? "even with the best recompute it needs " : "it needs ";
  return how + more + ", fewer operators in this stage, more replicas or a smaller microbatch";
}

// What the devices hold for other stages too.
std::string others_text(const PricedPlan& priced, std::size_t s) {
  if (priced.kind != ScheduleKind::kInterleaved) return "";
  return ", with its devices' other stages " + bytes_text(priced.device_bytes[s]);
}

// A rounding error is not an excess: bytes are whole.
double beyond(double bytes, double limit) {
  const double excess = limit > 0 ? bytes - limit : 0;
  return excess < 0.5 ? 0 : excess;
}

}  // namespace

double excess_bytes(const PricedPlan& priced, std::size_t stage) {
  const double device = beyond(priced.device_bytes[stage], priced.limits[stage]);
  return std::max(device, beyond(priced.host_bytes[stage], priced.host_limits[stage]));
}

std::int32_t worst_memory_stage(const PricedPlan& priced) {
  std::int32_t worst = -1;
  double most = 0;
  for (std::size_t s = 0; s < priced.shapes.size(); ++s) {
    const double excess = excess_bytes(priced, s);
    if (excess <= most) continue;
    most = excess;
    worst = static_cast<std::int32_t>(s);
  }
  return worst;
}

std::string describe_excess(const CostTable::Tables& tables, const Calibration& calibration, const Plan& plan,
                            const PricedPlan& priced, std::int32_t stage, bool may_recompute) {
  const auto s = static_cast<std::size_t>(stage);
  const StageBytes& bytes = priced.bytes[s];
  const double on_host = beyond(priced.host_bytes[s], priced.host_limits[s]);
  if (on_host > beyond(priced.device_bytes[s], priced.limits[s])) {
    return "stage " + std::to_string(stage) + " (" + operators_text(tables.model, priced.shapes[s].operators) +
           "): host memory: a rank needs " + bytes_text(priced.host_bytes[s]) + " for what memory switches offload, " +
           "its share of the node has " + bytes_text(priced.host_limits[s]) + ": " + bytes_text(on_host) +
           " too much; offload less, or give the stage more replicas";
  }
  return "stage " + std::to_string(stage) + " (" + operators_text(tables.model, priced.shapes[s].operators) +
         "; device " + std::to_string(plan.stages[s].devices.front()) + "): memory: needs " +
         bytes_text(bytes.total()) + " (states " + bytes_text(bytes.states) + ", activations " +
         bytes_text(bytes.activations) + " of " + std::to_string(priced.shapes[s].in_flight) +
         " microbatches, recompute peak " + bytes_text(bytes.recompute_peak) + ", reserved " +
         bytes_text(bytes.working + bytes.process + bytes.gradient_buffer + bytes.gathered) + ")" +
         others_text(priced, s) + ", the device has " + bytes_text(priced.limits[s]) + ": " +
         bytes_text(excess_bytes(priced, s)) + " too much; " + remedy(calibration, priced, s, may_recompute);
}

}  // namespace trimtab::tuner
