#include "native/stage/native_switch_program.hpp"

#include "native/stage/layer_sums.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

double real(std::int64_t whole) {
  return static_cast<double>(whole);
}

double ms_of(double ticks) {
  return ticks / h3t::kTicksPerMs;
}

// Economical switches change neither what is moved nor what is kept.
const std::vector<h3t::LayerSwitches>& modes() {
  static const std::vector<h3t::LayerSwitches> all = [] {
    std::vector<h3t::LayerSwitches> plain;
    for (const h3t::LayerSwitches& of : h3t::synchronized_combinations()) {
      if (!of.economical_forward && !of.economical_backward) plain.push_back(of);
    }
    return plain;
  }();
  return all;
}

bool released(const h3t::LayerSwitches& switches) {
  return switches.partition_parameters && switches.rematerialize;
}

// What a layer's own passes take beyond what stays.
double working_bytes(const h3t::LayerProfile& layer, const h3t::LayerSwitches& switches) {
  Bytes passes = std::max(layer.with_grad.peak - layer.with_grad.delta, layer.backward_change.peak);
  if (switches.rematerialize) {
    passes = std::max(layer.no_grad.peak, layer.with_grad.delta + layer.backward_change.peak);
  }
  return real(passes + layer.gathered_gradients + (released(switches) ? layer.gathered_parameters : 0));
}

}  // namespace

std::optional<NativeSwitchProgram::SplitLayers> NativeSwitchProgram::layers_of(const Split& split,
                                                                               const Calibration& calibration) const {
  SplitLayers way;
  way.split = split;
  way.shape = split_shape(tables_.links.routes(), split, site_.microbatch, node_of_, site_.device_of, site_.devices);
  StageShape shape;
  shape.operators = site_.operators;
  shape.segments = {{site_.operators, way.shape}};
  shape.in_flight = site_.held;
  StageInputs inputs;
  resolve(tables_, shape, catalog_, inputs);
  if (!inputs.complete) return std::nullopt;
  const std::int32_t sharers = devices_sharing_node(node_of_, site_.device_of, site_.devices);
  auto layers = pricing_.layers({tables_, calibration, inputs, shape, sharers});
  if (!layers) return std::nullopt;
  way.layers = *std::move(layers);
  return way;
}

void NativeSwitchProgram::place(const StageSite& site, const Calibration& calibration) {
  site_ = site;
  changing_ = calibration.moving(CommunicationClass::kCollectives);
  ranges_ = layers_inside(tables_.model, site.operators);
  of_split_.clear();
  for (const Split& split : space_.splits(tables_.model, site.microbatch, site.devices)) {
    if (!(split == switchable(split))) continue;
    std::optional<SplitLayers> way = layers_of(split, calibration);
    if (way) of_split_.push_back(*std::move(way));
  }
}

std::vector<Split> NativeSwitchProgram::splits() const {
  std::vector<Split> splits;
  for (const SplitLayers& way : of_split_) splits.push_back(way.split);
  return splits;
}

std::size_t NativeSwitchProgram::ways() const {
  return of_split_.size() * modes().size();
}

double NativeSwitchProgram::host_bytes(const h3t::LayerProfile& layer, const h3t::LayerSwitches& switches) const {
  return real(layer.host_bytes + site_.held * h3t::offloaded_bytes(layer, switches));
}

// What the segment simulator does, one after the other.
AddedCost NativeSwitchProgram::added(const h3t::LayerProfile& layer, const h3t::LayerSwitches& switches,
                                     const StageGuide& guide) const {
  const int fetches = switches.partition_parameters ? 2 : 1;
  const int forwards = switches.rematerialize ? 2 : 1;
  double moved = real(fetches * layer.gather_parameters + layer.scatter_gradients + layer.offload_gradients);
  if (switches.lazy_prefetch) moved += real(fetches * layer.prefetch_parameters);
  if (switches.offload_hidden) moved += real(layer.offload_hidden + layer.prefetch_hidden);
  const double written_back = switches.lazy_prefetch ? 0 : real(layer.prefetch_parameters);
  const double once = real(layer.optimizer_step) + guide.exposed * written_back;
  const double passes = real(forwards * layer.forward_with_grad + layer.backward) + guide.exposed * moved;
  const Bytes resident = (switches.lazy_prefetch ? 0 : layer.partitioned_parameters) +
                         (released(switches) ? 0 : layer.gathered_parameters) +
                         site_.held * h3t::retained_bytes(layer, switches);
  return {ms_of(passes + guide.once * once), real(resident)};
}

StageTerms NativeSwitchProgram::terms(const StageGuide& guide, double working, double host_price) const {
  StageTerms terms;
  terms.operators = ranges_.size();
  terms.ways = ways();
  terms.layouts = of_split_.size();
  terms.again.resize(terms.operators * terms.ways);
  for (std::size_t layer = 0; layer < terms.operators; ++layer) {
    for (const SplitLayers& way : of_split_) {
      for (const h3t::LayerSwitches& mode : modes()) {
        AddedCost& cost = terms.kept.emplace_back();
        if (working_bytes(way.layers[layer], mode) > working) continue;
        cost = added(way.layers[layer], mode, guide);
        cost.time += guide.once * host_price * host_bytes(way.layers[layer], mode);
      }
    }
  }
  for (std::size_t split = 0; split < of_split_.size(); ++split) {
    terms.layout_of.insert(terms.layout_of.end(), modes().size(), split);
  }
  put_changes(terms);
  return terms;
}

void NativeSwitchProgram::put_changes(StageTerms& terms) const {
  const std::size_t splits = of_split_.size();
  terms.change.assign(terms.operators * splits * splits, 0.0);
  for (std::size_t layer = 1; layer < terms.operators; ++layer) {
    const double bytes = tables_.output[ranges_[layer].begin - 1];
    for (std::size_t from = 0; from < splits; ++from) {
      for (std::size_t to = 0; to < splits; ++to) {
        const LayoutChange change = layout_change(of_split_[from].shape, false, of_split_[to].shape, false, bytes);
        terms.change[(layer * splits + from) * splits + to] = changing_ * change_ms(tables_.links, change);
      }
    }
  }
}

std::vector<double> NativeSwitchProgram::workings(std::size_t most) const {
  std::vector<double> all;
  for (const SplitLayers& way : of_split_) {
    for (const h3t::LayerProfile& layer : way.layers) {
      for (const h3t::LayerSwitches& mode : modes()) all.push_back(working_bytes(layer, mode));
    }
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (all.size() <= most) return all;
  for (std::size_t i = 0; i < most; ++i) all[i] = all[i * (all.size() - 1) / (most - 1)];
  all.resize(most);
  return all;
}

ByteWindow NativeSwitchProgram::window(double working) const {
  if (site_.limit_bytes <= 0) return {kInfinite, kInfinite};
  Bytes ahead = 0;
  for (const SplitLayers& way : of_split_) {
    for (const h3t::LayerProfile& layer : way.layers) ahead = std::max(ahead, layer.gathered_parameters);
  }
  const double limit = site_.limit_bytes - tables_.process_bytes.mean - working;
  return {limit - 2 * real(ahead), limit};
}

double NativeSwitchProgram::host_bytes(const StageWays& ways) const {
  double bytes = 0;
  for (std::size_t layer = 0; layer < ways.operators.size(); ++layer) {
    const std::size_t way = ways.operators[layer].way;
    bytes += host_bytes(of_split_[way / modes().size()].layers[layer], modes()[way % modes().size()]);
  }
  return bytes;
}

CandidateStage NativeSwitchProgram::stage(const StageWays& ways) const {
  CandidateStage stage;
  stage.end = site_.operators.end;
  stage.devices = site_.devices;
  for (std::size_t layer = 0; layer < ways.operators.size(); ++layer) {
    const Split& split = of_split_[ways.operators[layer].way / modes().size()].split;
    append_split(stage, ranges_[layer].end, split);
  }
  settle_splits(stage);
  return stage;
}

}  // namespace trimtab::tuner
