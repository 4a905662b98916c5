#include "native/stage/native_stage_program.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

double working_bytes(const OperatorPrice& price) {
  return std::max(price.working, price.forward_reserve + price.backward_reserve);
}

// Of what a stage's peak is the maximum of.
void take_most(const OperatorPrice& price, OperatorPrice& most) {
  for (double OperatorPrice::*const bytes :
       {&OperatorPrice::working, &OperatorPrice::forward_reserve, &OperatorPrice::backward_reserve,
        &OperatorPrice::stored, &OperatorPrice::gradient_buffer, &OperatorPrice::gathered}) {
    most.*bytes = std::max(most.*bytes, price.*bytes);
  }
}

}  // namespace

void NativeStageProgram::place(const StageSite& site, const Calibration& calibration) {
  site_ = site;
  computing_ = calibration.computation.value;
  moving_ = calibration.moving(CommunicationClass::kGradients);
  changing_ = calibration.moving(CommunicationClass::kCollectives);
  ways_.clear();
  layout_of_.clear();
  layouts_.clear();
  for (const Split& split : space_.splits(tables_.model, site.microbatch, site.devices)) {
    const SplitShape shape = split_shape(tables_.links.routes(), split, site.microbatch, node_of_, site.device_of,
                                         site.devices * space_.sequence.cp, space_.sequence);
    for (const bool alternate : {false, true}) {
      if (alternate && (split.tp < 2 || !space_.alternate_dimensions)) continue;
      ways_.push_back({split, shape, alternate, &catalog_.prices(shape, alternate)});
      add_layout(ways_.size() - 1);
    }
  }
}

// Ways that differ in what is sharded alone follow each other without a change.
void NativeStageProgram::add_layout(std::size_t way) {
  const auto alike = [&](std::size_t other) {
    const OperatorSplit& a = ways_[way];
    const OperatorSplit& b = ways_[other];
    return a.split.dp == b.split.dp && a.split.tp == b.split.tp && a.alternate == b.alternate;
  };
  const auto found = std::ranges::find_if(layouts_, alike);
  layout_of_.push_back(static_cast<std::size_t>(found - layouts_.begin()));
  if (found == layouts_.end()) layouts_.push_back(way);
}

const OperatorPrice& NativeStageProgram::price(std::int32_t op, const OperatorSplit& way) const {
  return way.prices->of_group[static_cast<std::size_t>(tables_.group_of[op])];
}

bool NativeStageProgram::runs(std::int32_t op, const OperatorSplit& way) const {
  return (!way.alternate || tables_.model.operators[op].shardings.size() > 1) && price(op, way).complete;
}

void NativeStageProgram::put(std::int32_t op, std::size_t way, const StageGuide& guide, StageTerms& terms) const {
  const OperatorSplit& of = ways_[way];
  if (!runs(op, of) || (guide.tensor_exposed < 1 && of.shape.samples % 2 != 0)) return;
  const OperatorPrice& price = this->price(op, of);
  const double hidden = (1 - guide.tensor_exposed) * std::min(price.forward_reducing(), price.backward_reducing());
  const double each = guide.exposed * (2 * price.gather + price.scatter);
  const double once =
      guide.once * (moving_ * (guide.exposed * price.last + price.after) + computing_ * price.optimizer);
  const double passes = price.forward + price.backward - 2 * hidden;
  const std::size_t at = static_cast<std::size_t>(op - site_.operators.begin) * ways_.size() + way;
  double bytes = price.states;
  if (op == site_.operators.begin && op > 0) bytes += site_.held * of.shape.samples_received() * tables_.output[op - 1];
  // Outputs as if whatever may be behind the operator were the best for it.
  const bool last = op + 1 == site_.operators.end;
  const double unread = std::min(price.stored, price.output);
  const bool freed = last ? tables_.model.frees_sent_outputs : tables_.output_unread[op] != 0;
  terms.kept[at] = {computing_ * passes + moving_ * each + once,
                    bytes + site_.held * (price.stored - (freed ? unread : 0))};
  if (!space_.knobs.recompute) return;
  const double kept_output = tables_.ends_run[op] != 0 && !last ? price.output : 0;
  terms.again[at] = {terms.kept[at].time + computing_ * (price.forward - hidden), bytes + site_.held * kept_output};
}

double NativeStageProgram::change_ms(const OperatorSplit& before, const OperatorSplit& after,
                                     double bytes_per_sample) const {
  const LayoutChange change =
      layout_change(before.shape, before.alternate, after.shape, after.alternate, bytes_per_sample);
  return tuner::change_ms(tables_.links, change) * changing_;
}

void NativeStageProgram::put_changes(StageTerms& terms) const {
  const std::size_t square = layouts_.size() * layouts_.size();
  terms.change.assign(terms.operators * square, 0.0);
  std::map<double, std::vector<double>> known;  // by the bytes of a sample that change hands
  for (std::size_t i = 1; i < terms.operators; ++i) {
    const double bytes = tables_.output[static_cast<std::size_t>(site_.operators.begin) + i - 1];
    std::vector<double>& changes = known[bytes];
    if (changes.empty()) {
      for (const std::size_t from : layouts_) {
        for (const std::size_t to : layouts_) changes.push_back(change_ms(ways_[from], ways_[to], bytes));
      }
    }
    std::copy(changes.begin(), changes.end(), terms.change.begin() + static_cast<std::ptrdiff_t>(i * square));
  }
}

StageTerms NativeStageProgram::terms(const StageGuide& guide) const {
  StageTerms terms;
  terms.operators = static_cast<std::size_t>(site_.operators.size());
  terms.ways = ways_.size();
  terms.layouts = layouts_.size();
  terms.layout_of = layout_of_;
  terms.kept.resize(terms.operators * terms.ways);
  terms.again.resize(terms.operators * terms.ways);
  for (std::int32_t op = site_.operators.begin; op < site_.operators.end; ++op) {
    for (std::size_t way = 0; way < ways_.size(); ++way) put(op, way, guide, terms);
  }
  put_changes(terms);
  return terms;
}

// Of parameters that several of the stage's operators share: at most what the terms count too often.
double NativeStageProgram::tied_states() const {
  double each = 0;
  for (const OperatorSplit& way : ways_) each = std::max(each, states_per_byte(tables_, way.shape) / way.split.tp);
  double bytes = 0;
  for (const TiedParameters& tied : tables_.model.tied_parameters) {
    const auto inside =
        std::ranges::count_if(tied.operators, [this](std::int32_t op) { return site_.operators.contains(op); });
    if (inside > 1 && !tied.copied) bytes += static_cast<double>((inside - 1) * tied.bytes);
  }
  return bytes * each;
}

ByteWindow NativeStageProgram::window() const {
  if (site_.limit_bytes <= 0) return {kInfinite, kInfinite};
  // Sub-batches work with less at once.
  const bool halves = space_.sub_batches.size() > 1;
  double least = 0;
  double run = 0;
  double brought_back = 0;  // by the longest run, whatever its ways
  double unsure = 0;        // outputs that are kept or not for what is recomputed beside them
  OperatorPrice most;
  for (std::int32_t op = site_.operators.begin; op < site_.operators.end; ++op) {
    double fewest = kInfinite;
    double stored = 0;
    double output = 0;
    for (const OperatorSplit& way : ways_) {
      if (!runs(op, way)) continue;
      const OperatorPrice& price = this->price(op, way);
      stored = std::max(stored, price.stored);
      output = std::max(output, price.output);
      const double working = halves ? 0 : working_bytes(price);
      fewest = std::min(fewest, working + price.gradient_buffer + price.gathered);
      take_most(price, most);
    }
    least = std::max(least, fewest);
    run += stored;
    if (space_.knobs.recompute) brought_back = std::max(brought_back, run);
    if (tables_.ends_run[op] != 0) {
      run = 0;
    } else {
      unsure += site_.held * output;
    }
  }
  const double limit = site_.limit_bytes - tables_.process_bytes.mean;
  const double ample = limit - working_bytes(most) - brought_back - unsure - most.gradient_buffer - 2 * most.gathered;
  return {ample, limit - least + tied_states()};
}

std::vector<CandidateStage> NativeStageProgram::stages(const StageWays& ways) const {
  CandidateStage stage;
  std::vector<Range> again;
  stage.end = site_.operators.end;
  stage.devices = site_.devices;
  for (std::size_t i = 0; i < ways.operators.size(); ++i) {
    const std::int32_t op = site_.operators.begin + static_cast<std::int32_t>(i);
    const OperatorSplit& way = ways_[ways.operators[i].way];
    append_split(stage, op + 1, way.split);
    if (way.alternate) stage.alternate.push_back({op, op + 1});
    if (ways.operators[i].again) again.push_back({op, op + 1});
  }
  settle_splits(stage);
  stage.alternate = normalized(std::move(stage.alternate));
  std::vector<CandidateStage> stages{stage};
  if (space_.derived_recompute) return stages;
  stage.recompute = normalized(std::move(again));
  stages.push_back(std::move(stage));
  return stages;
}

}  // namespace trimtab::tuner
