// What a change of the hardware has made doubtful is measured again, by the ranks of a job that can, between two of
// their steps; then plans are searched. Whatever goes wrong, they are searched with what is known.

#include <utility>

#include "tuning/hardware/retuning.hpp"

namespace trimtab::coordinator {
namespace {

// For whoever measures it by hand.
std::string by_hand(const Job& job) {
  std::string command;
  for (const std::string& word : job.benchmark) command += (command.empty() ? "" : " ") + word;
  return command.empty() ? "" : ". The job's benchmark command (" + command + ") measures them, with these requests";
}

}  // namespace

MeasuringAgain* Retuning::measuring_again() {
  auto* const probing = m_.activity.get<Probing>();
  return probing != nullptr && probing->again ? &*probing->again : nullptr;
}

Next Retuning::handle(const DoubtfulListed& listed) {
  MeasuringAgain* const again = measuring_again();
  if (again == nullptr || again->number != 0) return {};
  again->doubtful = listed.doubtful;
  if (!listed.error.empty()) return not_measured(listed.error);
  if (listed.doubtful.items.empty()) {
    return not_measured(listed.doubtful.costs > 0 ? "no measurement fits into the pause that is allowed" : "");
  }
  again->number = m_.hardware.next_measuring();
  m_.out.changed = true;
  m_.out.note("drift", std::to_string(again->doubtful.costs) +
                           " costs are doubtful; the ranks measure the weightiest " +
                           std::to_string(again->doubtful.items.size()) + " again between two steps");
  m_.out.act(MeasureAgain{again->number, again->doubtful.request_json});
  return {};
}

Next Retuning::handle(std::int32_t rank, const RankMeasured& measured) {
  MeasuringAgain* const again = measuring_again();
  if (again == nullptr || measured.number != again->number) return {};
  if (!measured.error.empty()) return not_measured(measured.error);
  again->told[rank] = measured;
  if (std::cmp_less(again->told.size(), m_.state.world_size())) return {};
  return this->measured(measured_by(again->doubtful, again->told, m_.state.hardware.slow_devices));
}

// Ranks that have not heard of it need not; those that measure already do so to the end of their pause.
Next Retuning::not_measured(const std::string& why) {
  const MeasuringAgain again = *measuring_again();
  if (again.number > 0) m_.out.act(MeasureAgain{again.number, ""});
  Remeasured none;
  none.doubtful = again.doubtful.costs;
  none.left = why;
  if (none.doubtful > 0) {
    none.left += by_hand(m_.state.job);
    m_.out.note("warning", "costs are doubtful, and prices rest on them",
                again.doubtful.request_json.empty() ? "{}" : again.doubtful.request_json);
  }
  return measured(none);
}

Next Retuning::measured(const Remeasured& again) {
  m_.hardware.take_measured(again);
  m_.request_search();
  return {};
}

}  // namespace trimtab::coordinator
