// Ways to run one stage that the stage program finds, priced as they are: the program adds up what the evaluator knows
// to overlap and to peak.

#include "native/stage/native_switch_program.hpp"
#include "native/step/native_evaluator.hpp"
#include "native/step/priced_plan.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kPriced = 64;  // of one guide, answers at most
constexpr std::size_t kFitting = 4;  // of one guide, stages that fit
constexpr std::size_t kKept = 16;    // of all guides
constexpr std::size_t kWays = 5000;  // of all operators: a program over more takes longer than a search may ask
constexpr std::size_t kMixed = 4;    // mixed splits that memory switches are chosen for
constexpr std::size_t kWorkings = 4;
constexpr std::size_t kSwitchLabels = 16;
constexpr std::size_t kRemembered = 1 << 12;

// Where all communication is waited for and where none is, and halfway; in the stage that holds up every round, and in
// one that does so once; and in sub-batches, which hide what tensor-parallel ranks exchange.
std::vector<StageGuide> guides_for(double rounds, bool sub_batches) {
  std::vector<StageGuide> guides;
  for (const double tensor : {1.0, 0.0}) {
    if (tensor < 1 && !sub_batches) continue;
    for (const double exposed : {1.0, 0.0, 0.5}) guides.push_back({exposed, tensor, 1 / rounds});
    if (rounds < 2) continue;
    for (const double exposed : {1.0, 0.0}) guides.push_back({exposed, tensor, 1});
  }
  return guides;
}

// Different stages that fit, by time.
class Proposals {
 public:
  // Whether it is new.
  bool see(const CandidateStage& stage) {
    if (std::ranges::find(seen_, stage) != seen_.end()) return false;
    seen_.push_back(stage);
    return true;
  }
  void add(double ms, CandidateStage stage) { fitting_.push_back({ms, std::move(stage)}); }
  [[nodiscard]] std::size_t fitting() const { return fitting_.size(); }

  [[nodiscard]] std::vector<CandidateStage> best(std::size_t most) {
    std::ranges::stable_sort(fitting_, [](const Timed& a, const Timed& b) { return a.ms < b.ms; });
    std::vector<CandidateStage> best;
    for (std::size_t i = 0; i < std::min(most, fitting_.size()); ++i) best.push_back(std::move(fitting_[i].stage));
    return best;
  }

 private:
  struct Timed {
    double ms = 0;
    CandidateStage stage;
  };
  std::vector<CandidateStage> seen_;
  std::vector<Timed> fitting_;
};

}  // namespace

// Of a round, its share of what happens once a step included; infinite where the stage does not fit.
double NativeEvaluator::best_round_ms(const CandidateStage& of, const StageSite& site, std::int32_t first_device) {
  Candidate alone;
  alone.microbatch = site.microbatch;
  alone.stages = {of};
  const double rounds = model().global_batch / site.microbatch;
  double best = kNever;
  for (const SubBatches& sub_batches : space().sub_batches) {
    if (sub_batches.count > 1 && !may_sub_batch(alone)) continue;
    const StagePrice& price =
        stage_alone(of, site.operators.begin, first_device, site.microbatch, site.held, sub_batches);
    if (!price.priced || price.excess_bytes > 0) continue;
    const double each = price.forward + price.backward + price.recompute + price.communication;
    best = std::min(best, each + (std::max(0.0, price.sync) + price.optimizer) / rounds);
  }
  return best;
}

std::vector<CandidateStage> NativeEvaluator::solve_stage_at(const StageSite& site, std::int32_t first_device) {
  NativeStageProgram program(*tables_, space(), node_of_, catalog_);
  program.place(site, calibration_on(first_device, site.devices));
  if (program.ways() * static_cast<std::size_t>(site.operators.size()) > kWays) return {};
  std::vector<CandidateStage> stages =
      space().mixed_splits ? mixed_stages_at(program, site, first_device) : plain_stages_at(site);
  std::vector<CandidateStage> switched = switched_stages_at(site, first_device);
  std::move(switched.begin(), switched.end(), std::back_inserter(stages));
  Proposals proposals;
  for (CandidateStage& stage : stages) {
    const double ms = best_round_ms(stage, site, first_device);
    if (ms < kNever) proposals.add(ms, std::move(stage));
  }
  return proposals.best(kKept);
}

std::vector<CandidateStage> NativeEvaluator::plain_stages_at(const StageSite& site) const {
  std::vector<CandidateStage> stages;
  for (const Split& split : space().splits(model(), site.microbatch, site.devices)) {
    CandidateStage& stage = stages.emplace_back();
    stage.end = site.operators.end;
    stage.devices = site.devices;
    stage.split = split;
  }
  return stages;
}

std::vector<CandidateStage> NativeEvaluator::mixed_stages_at(const NativeStageProgram& program, const StageSite& site,
                                                             std::int32_t first_device) {
  const double rounds = model().global_batch / site.microbatch;
  Proposals proposals;
  for (const StageGuide& guide : guides_for(rounds, space().sub_batches.size() > 1)) {
    if (stopped()) break;
    const std::size_t enough = proposals.fitting() + kFitting;
    std::size_t priced = 0;
    for (const StageWays& ways : solve_stage(program.terms(guide), program.window())) {
      if (proposals.fitting() >= enough || ++priced > kPriced) break;
      for (CandidateStage& found : program.stages(ways)) {
        if (!proposals.see(found)) continue;
        const double ms = best_round_ms(found, site, first_device);
        if (ms < kNever) proposals.add(ms, std::move(found));
      }
    }
  }
  return proposals.best(kKept);
}

// Every split alone, and the mixed ones that the program finds; each with the switches that are best for it.
std::vector<CandidateStage> NativeEvaluator::switched_stages_at(const StageSite& site, std::int32_t first_device) {
  if (!has_switches()) return {};
  NativeSwitchProgram program(*tables_, space(), node_of_, catalog_, switch_stage_);
  program.place(site, calibration_on(first_device, site.devices));
  std::vector<CandidateStage> stages;
  for (const Split& split : program.splits()) {
    CandidateStage& stage = stages.emplace_back();
    stage.end = site.operators.end;
    stage.devices = site.devices;
    stage.split = split;
  }
  if (space().mixed_splits && stages.size() > 1) add_mixed_switched(program, site, stages);
  std::vector<CandidateStage> switched;
  for (CandidateStage& stage : stages) {
    if (stopped()) break;
    auto with = with_best_switches(std::move(stage), site.operators.begin, first_device, site.microbatch, site.held);
    if (with) switched.push_back(*std::move(with));
  }
  return switched;
}

void NativeEvaluator::add_mixed_switched(const NativeSwitchProgram& program, const StageSite& site,
                                         std::vector<CandidateStage>& stages) const {
  if (program.ways() * program.layers() > kWays) return;
  const double host = host_limit(tables_->cluster, node_of_, site.device_of, site.devices);
  const std::size_t most = stages.size() + kMixed;
  // At first as if what layers work with were nothing: the most of it may not meet the most of the rest.
  std::vector<double> workings = program.workings(kWorkings);
  workings.insert(workings.begin(), 0.0);
  for (const StageGuide& guide : guides_for(model().global_batch / site.microbatch, false)) {
    double host_price = 0;
    for (const double working : workings) {
      if (stopped() || stages.size() >= most) return;
      const double allowed = working > 0 ? working : kNever;
      const auto answers =
          solve_stage(program.terms(guide, allowed, host_price), program.window(working), kSwitchLabels);
      if (answers.empty()) continue;
      // What is over the host's memory at no price: from then on as dear in all as the stage is long.
      const bool over = host > 0 && program.host_bytes(answers.front()) > host;
      if (over && host_price <= 0) host_price = answers.front().time / guide.once / host;
      for (std::size_t i = 0; i < std::min(answers.size(), kFitting) && stages.size() < most; ++i) {
        CandidateStage stage = program.stage(answers[i]);
        if (std::ranges::find(stages, stage) == stages.end()) stages.push_back(std::move(stage));
      }
    }
  }
}

std::vector<CandidateStage> NativeEvaluator::stage_proposals(const Candidate& candidate, std::size_t stage) {
  if (!space().mixed_splits && !has_switches()) return {};
  const CandidateStage& from = candidate.stages[stage];
  const std::int32_t first_device = candidate.first_device_of(stage);
  const std::int32_t* const devices = devices_from(first_device);
  const StageSite site{
      {candidate.begin_of(stage), from.end}, from.devices, candidate.microbatch,
      flight_of(candidate, stage),           devices,      memory_limit_of(first_device, from.devices)};
  const LookupKey key{site.operators.begin, site.operators.end, place_of(first_device, site.devices),
                      site.devices,         site.microbatch,    site.held};
  const auto found = proposals_.find(key);
  if (found != proposals_.end()) return found->second;
  if (proposals_.size() >= kRemembered) proposals_.clear();
  std::vector<CandidateStage> solved = solve_stage_at(site, first_device);
  if (stopped()) return solved;
  return proposals_.emplace(key, std::move(solved)).first->second;
}

}  // namespace trimtab::tuner
