#include "records/range_fold.hpp"

#include <algorithm>
#include <iterator>

#include "schema/costs/sequence_sharing.hpp"

namespace trimtab::agent {

namespace {

using Kind = RangeName::Kind;
using Pass = RangeName::Pass;
constexpr std::size_t kContextsKept = 8;
constexpr std::uint64_t kHeldFor = 10'000'000'000;  // a pass of a job that names no steps

enum class PayloadIs { kNothing, kSamples, kBytes };

// What a range's name means.
struct Meaning {
  CostKey key;
  PayloadIs payload = PayloadIs::kNothing;
  bool step = false;
  bool plan_change = false;
  bool of_device = false;  // where the name stays, "/device" tells its time from the host's
  bool pass = false;       // of an operator that the model knows, as its cost kind means it
  CostSource source = {CostSource::Kind::kTraining, "", CostSource::Beside::kNotSaid, CostSource::Clock::kHost};
};

Meaning by_name(std::string subject) {
  Meaning meaning;
  meaning.key.subject = std::move(subject);
  return meaning;
}

Meaning operator_meaning(const RangeRecord& record, const FoldContext& context) {
  const auto known = context.operators.find(record.range.what);
  const Pass pass = record.range.pass;
  if (known == context.operators.end() || pass == Pass::kUnknown) return by_name(std::string(record.name));
  // Of a recomputed operator the first forward pass records nothing for the backward pass, which is no cost kind: a
  // range, but one for all operators of a shape. Recomputing it is the pass that the cost kind means.
  const bool backward = pass == Pass::kBackward;
  const bool records = pass == Pass::kRecompute || !known->second.recomputed;
  Meaning meaning = by_name("op/" + known->second.cost_key + "/unrecorded");
  if (backward || records) {
    meaning.key.kind = backward ? CostKind::kOperatorBackward : CostKind::kOperatorForward;
    meaning.key.subject = known->second.cost_key;
    meaning.pass = true;
    // For the ranks that it adds up with, or exchanges keys and values with.
    meaning.source.waiting = known->second.tp > 1 || is_sharing_name(known->second.sharding);
  }
  meaning.key.dtype = context.dtype;
  meaning.key.tp = known->second.tp;
  meaning.key.sharding = known->second.sharding;
  meaning.payload = PayloadIs::kSamples;
  return meaning;
}

Meaning collective_meaning(const RangeRecord& record, const FoldContext& context) {
  if (record.range.group_size == 0) return by_name(std::string(record.name));
  Meaning meaning = by_name(std::string(record.range.what));
  meaning.key.kind = CostKind::kCollective;
  meaning.key.group_size = record.range.group_size;
  meaning.key.placement = context.placement;
  meaning.payload = PayloadIs::kBytes;
  meaning.source.waiting = true;
  return meaning;
}

// A receive mostly waits for its sender: that is the pipeline's bubble, not the link's time.
Meaning transfer_meaning(const RangeRecord& record, const FoldContext& context) {
  Meaning meaning = by_name(std::string(record.name));
  const bool sends = record.range.what == "send";
  if (!sends && record.range.what != "recv") return meaning;
  if (sends) {
    meaning.key.kind = CostKind::kPointToPoint;
    meaning.key.subject = "send_recv";
    meaning.source.waiting = true;
  }
  meaning.key.placement = context.placement;
  meaning.payload = PayloadIs::kBytes;
  return meaning;
}

// What a range takes that a device may do for it.
bool is_work(CostKind kind) {
  return kind == CostKind::kOperatorForward || kind == CostKind::kOperatorBackward || kind == CostKind::kCollective ||
         kind == CostKind::kPointToPoint;
}

Meaning meaning_of(const RangeRecord& record, const FoldContext& context) {
  switch (record.range.kind) {
    case Kind::kOperator:
      return operator_meaning(record, context);
    case Kind::kCollective:
      return collective_meaning(record, context);
    case Kind::kTransfer:
      return transfer_meaning(record, context);
    default:
      break;
  }
  const bool foreign = record.domain != kOwnDomain && !record.domain.empty();
  Meaning meaning = by_name((foreign ? std::string(record.domain) + "/" : "") + std::string(record.name));
  meaning.plan_change = record.range.kind == Kind::kPlanChange;
  meaning.step = record.range.kind == Kind::kStep;
  if (meaning.step && !context.plan_hash.empty()) {
    meaning.key.kind = CostKind::kStepTime;
    meaning.key.subject = context.plan_hash;
  }
  return meaning;
}

// The key with the payload in it; without a usable payload the range is folded by its name.
CostKey complete_key(const Meaning& meaning, const RangeRecord& record) {
  CostKey key = meaning.key;
  const bool given = (record.flags & record::kPayloadValid) != 0 && record.payload > 0;
  if (meaning.payload == PayloadIs::kNothing) return key;
  if (!given || (meaning.payload == PayloadIs::kSamples && record.payload > INT32_MAX)) {
    return by_name(std::string(record.name) + (meaning.of_device ? "/device" : "")).key;
  }
  if (meaning.payload == PayloadIs::kSamples) key.samples = static_cast<std::int32_t>(record.payload);
  if (meaning.payload == PayloadIs::kBytes) key.bytes = record.payload;
  return key;
}

}  // namespace

struct RangeFold::Entry {
  CostSource source;
  Statistics statistics;
  Statistics alone;   // of passes of which it is known
  Statistics beside;  // communication, the same
  std::int64_t epoch = 0;
  std::uint64_t seen = 0;  // in that epoch
};

// A name's meaning, and the entries that its last few payloads led to.
struct RangeFold::Rule {
  Meaning meaning;
  struct Recent {
    std::int64_t payload = 0;
    Entry* entry = nullptr;
  };
  std::array<Recent, 4> recent;
  std::size_t next = 0;
};

FoldContext fold_context(const Model& model, const Plan& plan, std::int32_t device) {
  FoldContext context;
  context.dtype = model.dtype;
  context.plan_hash = semantic_hash(plan);
  const auto add_segment = [&](const Segment& segment) {
    const std::string shared = sharing_of(plan, segment);
    for (std::int32_t i = segment.operators.begin; i < segment.operators.end; ++i) {
      if (i < 0 || i >= static_cast<std::int32_t>(model.operators.size())) continue;
      const Operator& op = model.operators[static_cast<std::size_t>(i)];
      const bool alternate = std::ranges::any_of(segment.alternate_dimension, [&](Range r) { return r.contains(i); });
      const std::string whole = alternate && op.shardings.size() > 1 ? op.shardings[1] : "default";
      const bool recomputed = std::ranges::any_of(segment.recompute, [&](Range r) { return r.contains(i); });
      context.operators[op.name] = {op.cost_key, segment.tp, shared.empty() ? whole : shared, recomputed};
    }
  };
  for (const Stage& stage : plan.stages) {
    if (std::ranges::find(stage.devices, device) == stage.devices.end()) continue;
    for (const Segment& segment : stage.segments) add_segment(segment);
  }
  return context;
}

RangeFold::RangeFold(FoldOptions options) : options_(options) {}
RangeFold::~RangeFold() = default;

void RangeFold::set_context(std::int64_t epoch, FoldContext context) {
  contexts_[epoch] = std::move(context);
  if (epoch == epoch_) forget_rules();
  for (auto oldest = contexts_.begin(); contexts_.size() > kContextsKept;) {
    oldest = oldest->first == epoch_ ? std::next(oldest) : contexts_.erase(oldest);
  }
}

void RangeFold::begin_epoch(std::int64_t epoch) {
  if (epoch == epoch_) return;
  epoch_ = epoch;
  steps_ = {};
  steps_.epoch = epoch;
  forget_rules();
}

void RangeFold::forget_rules() {
  domains_.clear();
  device_rules_.clear();
  rules_ = 0;
}

void RangeFold::add(const RangeRecord& record) {
  if (record.kind != record::kRange) {
    ++counters_.not_ranges;
  } else if ((record.flags & record::kUnterminated) != 0) {
    ++counters_.unterminated;
  } else if (Rule* rule = rule_for(record); rule == nullptr) {
    ++counters_.overflow;
  } else {
    const RangeName& range = record.range;
    const bool works = range.kind == Kind::kOperator || range.communicates();
    if (first_work_ns_ == 0 && works) first_work_ns_ = record.end_ns;
    newest_ns_ = std::max(newest_ns_, record.end_ns);
    // What other threads communicate runs beside a pass; what its own thread does is part of it.
    if (!on_device_ && range.communicates()) held_.communication(record.begin_ns, record.end_ns, record.thread);
    fold(*rule, record, record.duration_ns(), CostSource::Beside::kNotSaid);
  }
}

void RangeFold::on_device() {
  if (std::exchange(on_device_, true)) return;
  forget_rules();
  held_ = HeldPasses();
  for (auto& [key, entry] : entries_) {
    if (!is_work(key.first.kind)) continue;
    *entry = {};
    entry->source = key.second;
  }
}

void RangeFold::add_device_time(const RangeRecord& pass, std::uint64_t device_ns, CostSource::Beside beside) {
  Rule* rule = rule_in(device_rules_, pass, false);
  if (rule == nullptr) {
    ++counters_.overflow;
    return;
  }
  if (!std::exchange(rule->meaning.of_device, true)) {
    rule->meaning.source.clock = CostSource::Clock::kDevice;
    if (rule->meaning.key.kind == CostKind::kRange) rule->meaning.key.subject += "/device";
  }
  fold(*rule, pass, static_cast<std::int64_t>(device_ns), beside);
}

void RangeFold::fold(Rule& rule, const RangeRecord& record, std::int64_t duration_ns, CostSource::Beside beside) {
  const bool plan_change = rule.meaning.plan_change;
  const bool step = rule.meaning.step;
  if (Entry* entry = entry_for(rule, record); entry == nullptr) {
    ++counters_.overflow;
  } else {
    if (std::exchange(entry->epoch, epoch_) != epoch_) entry->seen = 0;
    const bool warm = plan_change || entry->seen >= options_.warmup;
    ++entry->seen;
    if (warm) add_value(rule, *entry, record, duration_ns, beside);
    ++(warm ? counters_.folded : counters_.warmup);
  }
  if (step) {
    add_step(record);
    held_.step_ended(record.end_ns);
  }
  // Last: it forgets the rules.
  if (plan_change && (record.flags & record::kPayloadValid) != 0) begin_epoch(record.payload);
}

void RangeFold::add_value(const Rule& rule, Entry& entry, const RangeRecord& record, std::int64_t duration_ns,
                          CostSource::Beside beside) {
  if (!rule.meaning.pass) return entry.statistics.add(duration_ns);
  if (!rule.meaning.of_device) {
    return held_.pass(record.begin_ns, record.end_ns, record.thread, {&entry.alone, &entry.beside});
  }
  const bool known = beside != CostSource::Beside::kNotSaid && !entry.source.waiting;
  Statistics& into = !known ? entry.statistics : beside == CostSource::Beside::kNothing ? entry.alone : entry.beside;
  into.add(duration_ns);
}

void RangeFold::add_step(const RangeRecord& record) {
  if ((record.flags & record::kPayloadValid) != 0) steps_.last = record.payload;
  if (steps_.count++ >= options_.warmup) steps_.duration_ns.add(record.duration_ns());
}

RangeFold::Rule* RangeFold::rule_for(const RangeRecord& record) {
  auto domain = domains_.find(record.domain);
  if (domain != domains_.end()) {
    const auto known = domain->second.find(record.name);
    if (known != domain->second.end()) return known->second.get();
  }
  if (rules_ >= options_.max_keys) return nullptr;
  if (domain == domains_.end()) domain = domains_.emplace(std::string(record.domain), Rules{}).first;
  return rule_in(domain->second, record, on_device_);
}

RangeFold::Rule* RangeFold::rule_in(Rules& rules, const RangeRecord& record, bool host_only) {
  if (const auto known = rules.find(record.name); known != rules.end()) return known->second.get();
  if (rules_ >= options_.max_keys) return nullptr;
  auto rule = std::make_unique<Rule>();
  rule->meaning = meaning_of(record, context());
  if (host_only && is_work(rule->meaning.key.kind)) rule->meaning = by_name(std::string(record.name));
  ++rules_;
  return rules.emplace(std::string(record.name), std::move(rule)).first->second.get();
}

RangeFold::Entry* RangeFold::entry_for(Rule& rule, const RangeRecord& record) {
  const bool keyed = rule.meaning.payload != PayloadIs::kNothing && (record.flags & record::kPayloadValid) != 0;
  const std::int64_t payload = keyed ? record.payload : 0;
  for (const Rule::Recent& recent : rule.recent) {
    if (recent.entry != nullptr && recent.payload == payload) return recent.entry;
  }
  Place place{complete_key(rule.meaning, record), rule.meaning.source};
  auto entry = entries_.find(place);
  if (entry == entries_.end()) {
    if (entries_.size() >= options_.max_keys) return nullptr;
    auto fresh = std::make_unique<Entry>();
    fresh->source = place.second;
    entry = entries_.emplace(std::move(place), std::move(fresh)).first;
  }
  rule.recent[rule.next++ % rule.recent.size()] = {payload, entry->second.get()};
  return entry->second.get();
}

const FoldContext& RangeFold::context() const {
  static const FoldContext unknown;
  const auto known = contexts_.find(epoch_);
  return known == contexts_.end() ? unknown : known->second;
}

std::vector<Cost> RangeFold::take(bool all) {
  const bool held_back = !all && !on_device_ && newest_ns_ - first_work_ns_ < options_.device_grace_ns;
  if (all) held_.release();
  if (newest_ns_ > kHeldFor) held_.release_before(newest_ns_ - kHeldFor);
  std::vector<Cost> costs;
  const auto give = [&costs](const Place& place, Statistics& statistics, CostSource::Beside beside) {
    if (statistics.empty()) return;
    CostSource source = place.second;
    source.beside = beside;
    costs.push_back({place.first, std::exchange(statistics, {}), std::move(source)});
  };
  for (auto& [place, entry] : entries_) {
    if (held_back && is_work(place.first.kind)) continue;
    give(place, entry->statistics, CostSource::Beside::kNotSaid);
    give(place, entry->alone, CostSource::Beside::kNothing);
    give(place, entry->beside, CostSource::Beside::kCommunication);
  }
  return costs;
}

void HeldPasses::pass(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint32_t thread, Into into) {
  if (passes_.size() >= kMostPasses) tell_until(passes_[passes_.size() / 2].end_ns);
  passes_.push_back({begin_ns, std::max(begin_ns, end_ns), thread, into});
}

void HeldPasses::tell_until(std::uint64_t end_ns) {
  std::uint64_t oldest = std::numeric_limits<std::uint64_t>::max();  // beginning of a pass that stays
  std::erase_if(passes_, [&](const Pass& pass) {
    if (pass.end_ns > end_ns) {
      oldest = std::min(oldest, pass.begin_ns);
      return false;
    }
    Statistics* into =
        communications_.ran_beside(pass.begin_ns, pass.end_ns, pass.thread) ? pass.into.beside : pass.into.alone;
    into->add(static_cast<std::int64_t>(pass.end_ns - pass.begin_ns));
    return true;
  });
  communications_.forget_until(std::min(oldest, end_ns));
}

}  // namespace trimtab::agent
