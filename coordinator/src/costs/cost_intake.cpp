#include "costs/cost_intake.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

constexpr auto kLargestNumber = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
// Of remembered texts. What a key takes besides its text is a few hundred bytes.
constexpr std::size_t kMostKeyBytes = std::size_t{8} << 20;
constexpr std::size_t kMostFingerprintBytes = std::size_t{4} << 20;
constexpr std::size_t kEntryBytes = 512;
constexpr const char* kPlainTraining = "training";

Result<NamedFingerprint> too_long(const std::string& json, const std::string& name) {
  return bad_input(name + ": its hardware fingerprint has " + std::to_string(json.size()) + " bytes; at most " +
                   std::to_string(kLongestFingerprint) + " are taken");
}

// What agents measure is a benchmark or training, and both fields say the same. Releases before this one say no
// condition.
std::optional<CostSource> source_of(const wire::CostEntry& entry) {
  const CostSource plain = parse_cost_source(entry.source());
  if (entry.source() != "active" && entry.source() != "passive") return std::nullopt;
  if (entry.condition().empty()) return plain;
  CostSource source = parse_cost_source(entry.condition());
  return source.kind == plain.kind ? std::optional(std::move(source)) : std::nullopt;
}

}  // namespace

const CostKey* BatchReader::key_of(const std::string& json) {
  if (const auto known = keys_.find(json); known != keys_.end()) return &known->second;
  if (json.size() > kLongestKey) return nullptr;
  auto key = parse_cost_key(json);
  if (!key.ok()) return nullptr;
  if (key_bytes_ > kMostKeyBytes) {
    keys_.clear();
    key_bytes_ = 0;
  }
  key_bytes_ += 2 * json.size() + kEntryBytes;
  return &keys_.emplace(json, std::move(key).value()).first->second;
}

Result<NamedFingerprint> BatchReader::fingerprint_of(const std::string& json, const std::string& source) {
  if (const auto known = fingerprints_.find(json); known != fingerprints_.end()) return known->second;
  TRIMTAB_TRY(const Fingerprint fingerprint, parse_fingerprint(json, source));
  if (fingerprint_bytes_ > kMostFingerprintBytes) {
    fingerprints_.clear();
    fingerprint_bytes_ = 0;
  }
  fingerprint_bytes_ += 2 * json.size() + kEntryBytes;
  return fingerprints_.emplace(json, fingerprint).first->second;
}

BatchReader::Sources BatchReader::by_source(const wire::CostBatch& batch, Counters& counters) {
  Sources sources;
  for (const wire::CostEntry& entry : batch.entries()) {
    const CostKey* key = key_of(entry.key_json());
    auto statistics = Statistics::decode(entry.statistics());
    const auto source = source_of(entry);
    if (key == nullptr || !statistics.ok() || statistics->empty() || !source) {
      ++counters.cost_entries_refused;
      continue;
    }
    ++counters.cost_entries;
    auto& costs = sources[to_text(*source)];
    if (costs.empty()) costs.reserve(static_cast<std::size_t>(batch.entries_size()));
    costs.push_back({*key, std::move(statistics).value()});
  }
  // A batch without a readable entry is stored all the same: its number is used up.
  if (sources.empty()) sources[kPlainTraining] = {};
  return sources;
}

ReadBatch BatchReader::read(const std::string& instance, const wire::CostBatch& batch, Counters& counters) {
  const std::string name = "batch " + std::to_string(batch.batch());
  ReadBatch read;
  BatchAnswer& answer = read.answer;
  answer.number = batch.batch();
  answer.job = batch.job();
  const std::string& json = batch.fingerprint_json();
  const auto fingerprint = json.size() > kLongestFingerprint ? too_long(json, name) : fingerprint_of(json, name);
  if (batch.batch() > kLargestNumber) answer.refused = name + ": batches are numbered below 2^63";
  if (!fingerprint.ok()) answer.refused = fingerprint.error().message;
  if (!answer.refused.empty()) {
    // Its number is used up all the same, or nothing after it could be folded.
    if (batch.batch() <= kLargestNumber) read.parts.push_back({{instance, batch.batch()}, std::nullopt, "refused", {}});
    ++counters.batches_refused;
    return read;
  }
  answer.fingerprint = fingerprint->hash();
  // A stored batch has one source, so a mixed batch is stored as several; the first keeps the agent's own name for it.
  for (auto& [source, entries] : by_source(batch, counters)) {
    const CostSource parsed = parse_cost_source(source);
    for (const Cost& cost : entries) {
      answer.values.all += cost.statistics.count();
      if (parsed.disturbed) answer.values.disturbed += cost.statistics.count();
    }
    const std::string apart = source == kPlainTraining ? "passive" : source;  // the name that earlier releases gave it
    const std::string origin = read.parts.empty() ? instance : instance + "/" + apart;
    read.parts.push_back({{origin, batch.batch()}, *fingerprint, source, std::move(entries)});
    answer.has_active = answer.has_active || parsed.kind == CostSource::Kind::kBenchmark;
  }
  return read;
}

void CostIntake::take(std::uint64_t peer, const Member& member, const wire::CostBatch& batch) {
  ReadBatch read = reader_.read(member.instance, batch, services_.counters);
  for (CostBatch& part : read.parts) part.node = member.node;
  bytes_ += batch.ByteSizeLong();
  read.answer.peer = peer;
  read.answer.node = member.node;
  waiting_.push_back({std::move(read.answer), read.parts.size()});
  std::ranges::move(read.parts, std::back_inserter(parts_));
}

void CostIntake::commit() {
  if (waiting_.empty()) return;
  bytes_ = 0;
  std::vector<Waiting> group = std::exchange(waiting_, {});
  const std::vector<CostBatch> parts = std::exchange(parts_, {});
  const Nanoseconds begin = services_.clock.monotonic();
  const Status stored = store(group, parts);
  if (!stored.ok()) say(stored.error().message);
  // What the database takes from nobody must not keep it from the others.
  if (!stored.ok() && stored.error().kind == ErrorKind::kBadInput) store_each(group, parts);
  services_.counters.commit_times.observe(std::chrono::duration<double>(services_.clock.monotonic() - begin).count());
  for (const Waiting& one : group) {
    if (one.stored) tell_(one.answer);
  }
}

void CostIntake::store_each(std::span<Waiting> group, std::span<const CostBatch> parts) {
  for (Waiting& one : group) {
    const Status stored = store({&one, 1}, parts.first(one.parts));
    if (!stored.ok()) say("node " + one.answer.node + ": " + stored.error().message);
    parts = parts.subspan(one.parts);
  }
}

// A thousand agents try again each half minute: the log must not fill a disk that is full already.
void CostIntake::say(const std::string& failure) {
  const LogPace::Answer answer = pace_.next(services_.clock.monotonic());
  if (answer.left_out > 0) spdlog::error("{} more failures to store costs were left out", answer.left_out);
  if (answer.say) spdlog::error("{}", failure);
}

Status CostIntake::store(std::span<Waiting> group, std::span<const CostBatch> parts) {
  Counters& counters = services_.counters;
  const Status room = services_.check_room();
  const auto stored = room.ok() ? services_.costs.add_batches(parts) : room.error();
  if (!stored.ok()) {
    counters.batches_failed += group.size();
    const std::string what = group.size() == 1 ? "a batch" : std::to_string(group.size()) + " batches";
    return wrap("cannot store " + what + " of costs", stored.error());
  }
  auto part = stored->begin();
  for (Waiting& one : group) {
    one.stored = true;
    const auto end = part + static_cast<std::ptrdiff_t>(one.parts);
    const bool is_new = std::find(part, end, true) != end;
    if (one.answer.refused.empty()) ++(is_new ? counters.batches_stored : counters.batches_repeated);
    part = end;
  }
  return {};
}

}  // namespace trimtab::coordinator
