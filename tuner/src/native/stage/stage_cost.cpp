#include "native/stage/stage_cost.hpp"

#include "native/stage/overlapped_pass.hpp"

namespace trimtab::tuner {
namespace {

// Fills the inputs segment by segment.
class Resolver {
 public:
  Resolver(const CostTable::Tables& tables, const StageShape& shape, SplitCatalog& catalog, StageInputs& inputs)
      : tables_(tables), shape_(shape), catalog_(catalog), inputs_(inputs), slowdowns_(!tables.overlaps.empty()) {}

  void run() {
    reset();
    for (std::size_t g = 0; g < shape_.segments.size(); ++g) {
      add_segment(shape_.segments[g]);
      if (g > 0) add_change(shape_.segments[g - 1].split, shape_.segments[g]);
    }
    decide_channels();
    if (shape_.bucket_bytes > 0) {
      price_buckets(tables_, shape_, catalog_, inputs_.buckets);
      inputs_.complete = inputs_.complete && inputs_.buckets.complete;
    }
    const std::int32_t first = shape_.operators.begin;
    if (first > 0) {
      inputs_.input_bytes = shape_.segments.front().split.samples_received() * tables_.output[first - 1];
    }
    add_kept_outputs();
    for (const TiedParameters& tied : tables_.model.tied_parameters) hold_once(tied);
    inputs_.messages = {};
    if (!tables_.launches.empty()) count_messages();
  }

 private:
  void reset() {
    inputs_.operators = shape_.operators;
    inputs_.in_flight = shape_.in_flight;
    inputs_.input_bytes = inputs_.change_error = inputs_.slowest = inputs_.tied_states = 0;
    inputs_.device_share = tables_.device_share;
    inputs_.prices.clear();
    inputs_.groups.clear();
    inputs_.kept_output.clear();
    inputs_.freed_output.clear();
    inputs_.ends_run.clear();
    inputs_.at_work.clear();
    inputs_.brought_back.clear();
    inputs_.change_forward.clear();
    inputs_.change_backward.clear();
    inputs_.slows_down = inputs_.gathers_apart = false;
    inputs_.synchronizes = inputs_.gathers = inputs_.scatters = false;
    if (!inputs_.buckets.empty()) inputs_.buckets = {};
    inputs_.gathers_ahead = shape_.gathers_ahead;
    inputs_.prefetches = shape_.prefetches;
    inputs_.whole_gradients = shape_.whole_gradients;
    inputs_.process_bytes = tables_.process_bytes.mean;
    inputs_.complete = tables_.process_bytes.quality != Quality::kMissing;
  }

  void add_segment(const SegmentShape& segment) {
    const SplitPrices& prices = catalog_.prices(segment.split, false);
    const SplitPrices& others = shape_.alternate.empty() ? prices : catalog_.prices(segment.split, true);
    const bool replicas = segment.split.replica_ranks() > 1;
    inputs_.synchronizes = inputs_.synchronizes || replicas;
    inputs_.gathers = inputs_.gathers || segment.split.split.sharded == ShardedLevel::kParameters;
    inputs_.scatters = inputs_.scatters || segment.split.split.sharded >= ShardedLevel::kGradients;
    inputs_.slowest = std::max({inputs_.slowest, prices.slowest, others.slowest});
    bool before = false;
    for (std::int32_t i = segment.operators.begin; i < segment.operators.end; ++i) {
      const std::int32_t group = tables_.group_of[i];
      const bool alternate = !shape_.alternate.empty() && contains(shape_.alternate, i);
      const OperatorPrice& price = (alternate ? others : prices).of_group[group];
      inputs_.prices.push_back(&price);
      inputs_.groups.push_back(group);
      inputs_.complete = inputs_.complete && price.complete;
      if (slowdowns_ && !inputs_.slows_down) inputs_.slows_down = price.slows_down();
      if (i > segment.operators.begin && alternate != before) add_flip(i, segment.split, before, alternate);
      before = alternate;
    }
  }

  // Gathers have a channel of their own where all of the stage's were measured beside its scatters.
  void decide_channels() {
    if (!inputs_.slows_down || !inputs_.gathers || !inputs_.scatters || !inputs_.prefetches) return;
    const auto measured = [](const OperatorPrice* price) {
      return price->gather <= 0 || price->scatter <= 0 ||
             beside_each_other(*price->scatter_beside, *price->gather_beside).measured;
    };
    inputs_.gathers_apart = std::ranges::all_of(inputs_.prices, measured);
  }

  // A neighbour's output is received and the own one sent, in either pass. The last backward pass alone reduces what is
  // reduced once a step.
  void count_messages() {
    const auto positive = [](double ms) { return ms > 0; };
    const auto all = [&](const std::vector<double>& of) {
      return static_cast<int>(std::ranges::count_if(of, positive));
    };
    const auto priced = [&](double OperatorPrice::*ms) {
      return static_cast<int>(
          std::ranges::count_if(inputs_.prices, [ms](const OperatorPrice* price) { return price->*ms > 0; }));
    };
    const BucketPrices& of = inputs_.buckets;
    const int scatters = of.empty() ? priced(&OperatorPrice::scatter) : all(of.scatter);
    const int each = inputs_.whole_gradients ? 0 : scatters;
    const int once =
        of.empty() ? priced(&OperatorPrice::last) + priced(&OperatorPrice::after) : all(of.last) + all(of.after);
    const int neighbours = (shape_.operators.begin > 0 ? 1 : 0) + (shape_.operators.end < tables_.operators() ? 1 : 0);
    const int both = neighbours + priced(&OperatorPrice::gather);
    inputs_.messages = tables_.launches.messages(both + all(inputs_.change_forward),
                                                 both + each + all(inputs_.change_backward), once + scatters - each);
  }

  // The stage's last output is sent; nobody needs the model's.
  void add_kept_outputs() {
    for (std::int32_t i = shape_.operators.begin; i < shape_.operators.end; ++i) {
      const OperatorPrice& price = inputs_.price(i);
      const bool last = i + 1 == shape_.operators.end;
      const bool sent = last && i + 1 < tables_.operators() && tables_.model.frees_sent_outputs;
      const bool unread = !last && tables_.output_unread[i] != 0;
      const double output = std::min(price.stored, price.output);  // what is passed on as it was is kept elsewhere
      inputs_.kept_output.push_back(last || unread ? 0 : output);
      inputs_.freed_output.push_back(sent || unread ? output : 0);
      inputs_.ends_run.push_back(last ? 1 : tables_.ends_run[i]);
    }
  }

  // Where the operators are split alike: else their ranks hold other parts.
  void hold_once(const TiedParameters& tied) {
    if (tied.copied) return;
    const SplitShape* first = nullptr;
    for (const std::int32_t i : tied.operators) {
      const auto of = std::ranges::find_if(shape_.segments,
                                           [i](const SegmentShape& segment) { return segment.operators.contains(i); });
      if (of == shape_.segments.end()) continue;
      if (first != nullptr && *first == of->split) {
        const double whole = inputs_.whole_gradients ? whole_per_byte(tables_, *first) : 0;
        const double share = static_cast<double>(tied.bytes) / first->split.tp;
        inputs_.tied_states += share * (states_per_byte(tables_, *first) + whole);
      }
      if (first == nullptr) first = &of->split;
    }
  }

  void add_flip(std::int32_t i, const SplitShape& split, bool before, bool after) {
    put(i, layout_change(split, before, split, after, tables_.output[i - 1]));
  }
  void add_change(const SplitShape& before, const SegmentShape& after) {
    const std::int32_t i = after.operators.begin;
    put(i, layout_change(before, contains(shape_.alternate, i - 1), after.split, contains(shape_.alternate, i),
                         tables_.output[i - 1]));
  }

  void put(std::int32_t i, const LayoutChange& change) {
    const Value forward = price(change.forward);
    const Value backward = price(change.backward);
    if (forward.mean + backward.mean <= 0) return;
    const auto size = static_cast<std::size_t>(shape_.operators.size());
    inputs_.change_forward.resize(size, 0.0);
    inputs_.change_backward.resize(size, 0.0);
    inputs_.change_forward[i - shape_.operators.begin] += forward.mean;
    inputs_.change_backward[i - shape_.operators.begin] += backward.mean;
    inputs_.change_error += forward.error + backward.error;
  }

  Value price(const CollectiveUse& use) {
    const Value value = tables_.links.collective(use.primitive, use.bytes, use.group_size, use.route);
    inputs_.complete = inputs_.complete && value.quality != Quality::kMissing;
    return value;
  }

  const CostTable::Tables& tables_;
  const StageShape& shape_;
  SplitCatalog& catalog_;
  StageInputs& inputs_;
  bool slowdowns_;  // some are known
};

struct PassEnds {
  double computation = 0;
  double communication = 0;
};

// A pass's computing and collectives, operator by operator.
class Pass {
 public:
  // `gathers`: whether sharded parameters are not there yet.
  Pass(const Calibration& calibration, const StageInputs& inputs, const OverlapScale& overlap, bool gathers)
      : inputs_(inputs),
        gathers_(inputs.gathers && gathers),
        computing_(calibration.computation.value),
        changing_(calibration.moving(CommunicationClass::kCollectives)),
        moving_(calibration.moving(CommunicationClass::kGradients)),
        pass_(overlap.times(calibration.overlap.value), inputs.gathers_apart) {}

  // Before the first operator of the pass.
  void begin(const OperatorPrice& first) {
    if (gathers_ && inputs_.prefetches) pass_.fetch(first.gather * moving_, first.gather_beside);
  }
  // Before each; `next` is the one after it, null where it is the last.
  void gather(const OperatorPrice& price, const OperatorPrice* next) {
    if (!gathers_) return;
    if (!inputs_.prefetches) return pass_.block(price.gather * moving_);
    pass_.wait();
    if (next != nullptr) pass_.fetch(next->gather * moving_, next->gather_beside);
  }
  // For `length` in all, `passes` of the operator: its own collectives let no other through on their link, unless the
  // two were measured at once.
  void compute(const OperatorPrice& price, double length, int passes) {
    if (price.on_link <= 0) return pass_.compute(length * computing_, KindWork{price.kind});
    const double on_link = price.on_link * passes;
    pass_.compute((length - on_link) * computing_, KindWork{price.kind});
    pass_.compute(on_link * computing_, price.sums);
  }
  void change(const std::vector<double>& changes, std::size_t i) {
    if (!changes.empty()) pass_.block(changes[i] * changing_);
  }
  // Waits for what was fetched before.
  void fetch_next(const std::vector<CommunicationQueue::Item>& gathers, std::size_t& next) {
    pass_.wait();
    if (next == gathers.size()) return;
    pass_.fetch(gathers[next].left * moving_, gathers[next].of);
    ++next;
  }
  void send(double length, const CommunicationSlowdowns* beside) { pass_.communicate(length * moving_, beside); }
  [[nodiscard]] double computation_end() const { return pass_.computation_end(); }
  [[nodiscard]] PassEnds ends() const { return {pass_.computation_end(), pass_.communication_end()}; }

 private:
  const StageInputs& inputs_;
  bool gathers_;
  double computing_;
  double changing_;  // of layouts
  double moving_;    // of gradients and parameters
  OverlappedPass pass_;
};

double forward_pass(const Calibration& calibration, const StageInputs& inputs, const OverlapScale& overlap) {
  Pass pass(calibration, inputs, overlap, true);
  const std::size_t size = inputs.prices.size();
  pass.begin(*inputs.prices[0]);
  for (std::size_t i = 0; i < size; ++i) {
    const OperatorPrice& price = *inputs.prices[i];
    pass.gather(price, i + 1 < size ? inputs.prices[i + 1] : nullptr);
    pass.change(inputs.change_forward, i);
    pass.compute(price, price.forward, 1);
  }
  return pass.computation_end();
}

void send_gradients(const OperatorPrice& price, bool scatters, bool last, Pass& pass) {
  if (scatters) pass.send(price.scatter, price.scatter_beside);
  if (!last) return;
  if (price.copies <= 0) return pass.send(price.last, price.last_beside);
  pass.send(price.last - price.copies, price.last_beside);
  pass.send(price.copies, price.copies_beside);
}

void send_bucket(const BucketPrices& buckets, std::size_t i, bool scatters, bool last, Pass& pass) {
  if (scatters) pass.send(buckets.scatter[i], buckets.scatter_beside[i]);
  if (!last) return;
  pass.send(buckets.last[i] - buckets.copies[i], buckets.last_beside[i]);
  pass.send(buckets.copies[i], buckets.copies_beside[i]);
}

// With the operators' recompute and collectives; the last microbatch's come on top of every other's.
PassEnds backward_pass(const Calibration& calibration, const StageInputs& inputs, const RecomputeFlags& recompute,
                       const OverlapScale& overlap, bool last) {
  const bool shards = last || !inputs.whole_gradients;
  Pass pass(calibration, inputs, overlap, shards);
  const auto begin = static_cast<std::size_t>(inputs.operators.begin);
  pass.begin(*inputs.prices.back());
  for (std::size_t i = inputs.prices.size(); i-- > 0;) {
    const OperatorPrice& price = *inputs.prices[i];
    pass.gather(price, i > 0 ? inputs.prices[i - 1] : nullptr);
    const bool again = recompute[begin + i] != 0;
    pass.compute(price, price.backward + (again ? price.forward : 0), again ? 2 : 1);
    pass.change(inputs.change_backward, i);
    if (inputs.buckets.empty()) {
      send_gradients(price, shards, last, pass);
    } else {
      send_bucket(inputs.buckets, i, shards, last, pass);
    }
  }
  return pass.ends();
}

// What buckets of parameters that arrive during the next step's first forward delay it by: the first one's arrival, and
// waits for the others, each fetched when the one before is needed.
double gather_delay(const Calibration& calibration, const StageInputs& inputs, const OverlapScale& overlap,
                    double forward) {
  std::vector<CommunicationQueue::Item> gathers;
  for (std::size_t i = 0; i < inputs.buckets.after.size(); ++i) {
    const double ms = inputs.buckets.after[i];
    if (ms > 0) gathers.push_back({ms, inputs.buckets.after_beside[i]});
  }
  Pass pass(calibration, inputs, overlap, false);
  std::size_t next = 0;
  pass.fetch_next(gathers, next);
  for (std::size_t i = 0; i < inputs.prices.size(); ++i) {
    pass.change(inputs.change_forward, i);
    if (inputs.buckets.after[i] > 0) pass.fetch_next(gathers, next);
    pass.compute(*inputs.prices[i], inputs.prices[i]->forward, 1);
  }
  return pass.computation_end() - forward;
}

// What the replicas' passes of one microbatch differ by, and what they wait where they synchronize before every
// operator.
struct PassSpread {
  SpreadSum both;
  double forward_wait = 0;
  double backward_wait = 0;
  bool synchronizes = false;
};

PassSpread pass_spread(const StageInputs& part, int parts, const RecomputeFlags& recompute, bool every_operator) {
  PassSpread spread{SpreadSum(part.device_share)};
  for (std::size_t i = 0; i < part.prices.size(); ++i) {
    const OperatorPrice& price = *part.prices[i];
    SpreadSum forward(part.device_share);
    forward.add(price.forward_variance);
    SpreadSum backward(part.device_share);
    backward.add(price.backward_variance);
    if (recompute[static_cast<std::size_t>(part.operators.begin) + i] != 0) backward.add(price.forward_variance);
    for (int k = 0; k < parts; ++k) {
      spread.both.add(forward);
      spread.both.add(backward);
    }
    spread.synchronizes = spread.synchronizes || price.gradient_buffer > 0;
    if (!every_operator) continue;
    spread.forward_wait += parts * forward.wait(part.slowest);
    spread.backward_wait += parts * backward.wait(part.slowest);
  }
  return spread;
}

}  // namespace

void add_pass_waits(const Calibration& calibration, const StageInputs& stage, const StageInputs& part, int parts,
                    const RecomputeFlags& recompute, StageTimes& times) {
  if (part.slowest <= 0) return;
  const bool every_operator = stage.gathers && !stage.prefetches && !stage.whole_gradients;
  const bool every_microbatch = stage.gathers || (stage.scatters && !stage.whole_gradients);
  const PassSpread spread = pass_spread(part, parts, recompute, every_operator);
  if (!spread.synchronizes) return;
  const double factor = calibration.computation.value;
  if (!every_operator && !every_microbatch) {
    times.spread = spread.both.times(factor, part.slowest);
    return;
  }
  if (every_operator) times.forward_wait += spread.forward_wait * factor;
  const double wait = (every_operator ? spread.backward_wait : spread.both.wait(part.slowest)) * factor;
  times.backward_wait += wait;
  times.last_backward += wait;
  times.sync_end += wait;
}

void add_launches(const Calibration& calibration, const StageInputs& part, int parts, const RecomputeFlags& recompute,
                  StageTimes& times) {
  const double factor = calibration.launching.value;
  times.launches.add(part.messages, factor, 0);
  for (std::size_t i = 0; i < part.prices.size(); ++i) {
    const Launches& of = part.prices[i]->launches;
    if (of.both() + of.update <= 0) continue;
    times.launches.add(of, parts * factor, factor);
    if (recompute[static_cast<std::size_t>(part.operators.begin) + i] == 0) continue;
    times.launches.backward += parts * factor * of.forward;
    if (of.both() > 0) times.launches.error += parts * factor * of.error * of.forward / of.both();
  }
  // What the last backward pass reduces is issued in it: its device waits for that where it waits for its host anyway.
  const bool limit = times.launches.both() > times.forward + times.backward + times.recompute;
  const double reduced = limit ? part.messages.update * factor : 0;
  times.update_wait = std::max(0.0, times.launches.update - times.optimizer) + reduced;
  times.optimizer = std::max(times.optimizer, times.launches.update) + reduced;
  times.launches.update += reduced;
}

void resolve(const CostTable::Tables& tables, const StageShape& shape, SplitCatalog& catalog, StageInputs& inputs) {
  Resolver(tables, shape, catalog, inputs).run();
}

StageTimes stage_times(const Calibration& calibration, const StageInputs& inputs, const RecomputeFlags& recompute,
                       const OverlapScale& overlap) {
  StageTimes times;
  const std::int32_t begin = inputs.operators.begin;
  for (std::size_t i = 0; i < inputs.prices.size(); ++i) {
    const OperatorPrice& price = *inputs.prices[i];
    times.forward += price.forward;
    times.backward += price.backward;
    times.recompute += recompute[static_cast<std::size_t>(begin) + i] != 0 ? price.forward : 0;
    times.optimizer += price.optimizer;
    times.gather_after += price.after;
  }
  if (!inputs.buckets.empty()) times.gather_after = inputs.buckets.all_after();
  times.forward *= calibration.computation.value;
  times.backward *= calibration.computation.value;
  times.recompute *= calibration.computation.value;
  times.optimizer *= calibration.computation.value;
  times.gather_after *= calibration.moving(CommunicationClass::kGradients);
  add_launches(calibration, inputs, 1, recompute, times);
  times.last_backward = times.backward_pass();
  const bool changes = !inputs.change_forward.empty();
  if (inputs.gathers || changes) times.forward_wait = forward_pass(calibration, inputs, overlap) - times.forward;
  if (inputs.gathers_ahead && times.gather_after > 0) {
    times.gather_after = gather_delay(calibration, inputs, overlap, times.forward_pass());
  }
  const bool shards = inputs.scatters && !inputs.whole_gradients;
  if (shards || changes) {
    const PassEnds ends = backward_pass(calibration, inputs, recompute, overlap, false);
    // What is still on its way delays the next pass: the channel must be free again.
    times.backward_wait = ends.communication - times.backward - times.recompute;
  }
  if (!inputs.communicates()) return times;
  const PassEnds last = backward_pass(calibration, inputs, recompute, overlap, true);
  times.last_backward = last.computation;
  times.sync_end = inputs.synchronizes ? last.communication : 0;
  add_pass_waits(calibration, inputs, inputs, 1, recompute, times);
  return times;
}

std::size_t last_unit(const StageInputs& inputs) {
  std::size_t begin = inputs.prices.size() - 1;
  while (begin > 0 && inputs.ends_run[begin - 1] == 0) --begin;
  return begin;
}

double released_first(const StageInputs& inputs) {
  if (!inputs.brought_back.empty()) return 0;
  double bytes = 0;
  for (std::size_t k = last_unit(inputs); k < inputs.prices.size(); ++k) {
    bytes += inputs.prices[k]->stored - inputs.freed_output[k];
  }
  return bytes;
}

// An operator's stored bytes include its output, which is the next one's input.
StageBytes stage_bytes(const StageInputs& inputs, const RecomputeFlags& recompute) {
  const auto begin = static_cast<std::size_t>(inputs.operators.begin);
  double kept = inputs.input_bytes;
  double run = 0;  // what recomputing the run so far has brought back
  double working = 0;
  double forward_reserve = 0;
  double backward_reserve = 0;
  StageBytes bytes;
  const auto& at_work = inputs.at_work.empty() ? inputs.prices : inputs.at_work;
  for (std::size_t i = 0; i < inputs.prices.size(); ++i) {
    const OperatorPrice& price = *inputs.prices[i];
    const bool again_behind = inputs.again_behind(i, recompute);
    if (recompute[begin + i] == 0) {
      kept += price.stored - (again_behind ? 0 : inputs.freed_output[i]);
    } else if (again_behind) {
      run += price.stored - inputs.freed_output[i];
    } else {
      kept += inputs.kept_output[i];
      bytes.recompute_peak = std::max(bytes.recompute_peak, run + inputs.recompute_peak(i));
      run = 0;
    }
    const OperatorPrice& works = *at_work[i];
    working = std::max(working, works.working);
    forward_reserve = std::max(forward_reserve, works.forward_reserve);
    backward_reserve = std::max(backward_reserve, works.backward_reserve);
    bytes.states += price.states + (inputs.whole_gradients ? price.whole : 0);
    bytes.gradient_buffer = std::max(bytes.gradient_buffer, price.gradient_buffer);
    const double next = i + 1 < inputs.prices.size() ? inputs.prices[i + 1]->gathered : 0;
    bytes.gathered = std::max(bytes.gathered, price.gathered + next);
  }
  const auto last = recompute.begin() + inputs.operators.begin + static_cast<std::ptrdiff_t>(last_unit(inputs));
  const bool released =
      std::find(last, recompute.begin() + inputs.operators.end, 1) == recompute.begin() + inputs.operators.end;
  if (released) bytes.recompute_peak = std::max(0.0, bytes.recompute_peak - released_first(inputs));
  bytes.states = std::max(0.0, bytes.states - inputs.tied_states);
  bytes.gradient_buffer = std::max(bytes.gradient_buffer, inputs.buckets.gradient_buffer);
  bytes.activations = kept * inputs.in_flight;
  bytes.working = std::max(working, forward_reserve + backward_reserve);
  bytes.process = inputs.process_bytes;
  return bytes;
}

}  // namespace trimtab::tuner
