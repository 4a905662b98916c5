#include "jobs/held_memory.hpp"

#include "base/check.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::uint64_t kOfEachJob = std::uint64_t{64} << 10;  // its machine, queue and card
constexpr std::uint64_t kOfOver = std::uint64_t{16} << 10;     // the same once it is over
constexpr std::uint64_t kOfEntry = 64;                         // of a list
constexpr std::uint64_t kOfNode = 160;                         // of a map, with both its texts
// What a document takes as it was read, for each byte of its text.
constexpr std::uint64_t kReadOfByte = 10;

std::uint64_t of_list(const std::vector<std::string>& texts) {
  std::uint64_t bytes = 0;
  for (const std::string& one : texts) bytes += kOfEntry + one.size();
  return bytes;
}

template <typename Map>
std::uint64_t of_map(const Map& texts) {
  std::uint64_t bytes = 0;
  for (const auto& [name, value] : texts) bytes += kOfNode + name.size() + value.size();
  return bytes;
}

std::uint64_t of_knobs(const std::vector<OwnKnob>& knobs) {
  std::uint64_t bytes = 0;
  for (const OwnKnob& knob : knobs) {
    bytes += sizeof(OwnKnob) + knob.name.size() + knob.change_class.size();
    for (const OwnSettings& value : knob.values) bytes += sizeof(OwnSettings) + of_map(value);
    for (const auto& [key, values] : knob.when) bytes += kOfNode + key.size() + of_list(values);
  }
  return bytes;
}

// What was handed in, as a value.
std::uint64_t of_job(const Job& job) {
  return of_list(job.describe) + of_list(job.benchmark) + of_list(job.train) + of_list(job.submit) +
         of_map(job.environment) + of_map(job.software) + of_knobs(job.own_knobs) + job.model_json.size() +
         job.initial_plan_json.size() + job.working_directory.size() + job.checkpoint.size();
}

std::uint64_t of_plan(const PlanText& plan) {
  return plan.json.size() * (1 + (plan.said() != nullptr ? kReadOfByte : 0));
}

template <typename List>
std::uint64_t of_plans(const List& list) {
  std::uint64_t bytes = 0;
  for (const auto& one : list) bytes += sizeof(one) + of_plan(one.plan);
  return bytes;
}

}  // namespace

std::uint64_t needed_bytes(const Job& job) {
  // The model once more in the state, and what commands to nodes carry of the job.
  return kOfEachJob + 2 * of_job(job) + 2 * job.model_json.size() + 2 * kReadOfByte * job.initial_plan_json.size();
}

std::uint64_t held_bytes(const TuningState& state) {
  std::uint64_t bytes = (is_final(state.phase) ? kOfOver : kOfEachJob) + of_job(state.job) + state.model_json.size() +
                        state.recommendation_json.size() + state.calibration_json.size() +
                        state.earlier_calibration_json.size() + state.explanation.size() +
                        state.cluster.json.size() * (1 + kReadOfByte);
  for (const PlanText* plan : {&state.initial, &state.incumbent, &state.launch_plan}) bytes += of_plan(*plan);
  bytes +=
      of_plans(state.trials) + of_plans(state.passed_over) + of_plans(state.observations) + of_plans(state.replaced);
  bytes += of_list(state.failed_hashes) + of_list(state.hung_hashes);
  return bytes + sizeof(LossAt) * (state.losses.size() + state.untuned_losses.size());
}

void let_documents_go(TuningState& state) {
  TRIMTAB_ASSERT(is_final(state.phase), "a job that goes on needs its documents");
  Job& job = state.job;
  for (auto* list : {&job.describe, &job.benchmark, &job.train, &job.submit}) *list = {};
  for (auto* map : {&job.environment, &job.software}) map->clear();
  job.own_knobs = {};
  for (std::string* text : {&job.model_json, &job.initial_plan_json, &state.model_json, &state.recommendation_json,
                            &state.calibration_json, &state.earlier_calibration_json, &state.explanation}) {
    *text = {};
  }
  for (PlanText* plan : {&state.initial, &state.incumbent, &state.launch_plan}) *plan = PlanText("", plan->hash);
  for (Trial& trial : state.trials) {
    trial.plan = PlanText("", trial.plan.hash);
    trial.predicted_terms = trial.measured_terms = {};
    trial.measured_parts = {};
    trial.message = {};
  }
  state.cluster = {};
  state.passed_over = {};
  state.observations = {};
  state.replaced = {};
  state.convergence = {};
  state.losses = state.untuned_losses = {};
  state.hardware = {};
  state.failed_hashes = state.hung_hashes = {};
  state.crashes = {};
}

}  // namespace trimtab::coordinator
