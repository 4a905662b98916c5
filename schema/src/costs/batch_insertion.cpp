#include "costs/batch_insertion.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace trimtab {

namespace {

using cost_tables::Origin;
using cost_tables::SingleBatch;

// Few enough that reading a cost stays quick, many enough that folding is rare.
constexpr std::int64_t kFoldEvery = 64;
constexpr std::size_t kMostKeys = 1U << 16;
constexpr std::size_t kMostFingerprints = 1U << 12;

std::int64_t number_of(const CostBatch& batch) {
  return static_cast<std::int64_t>(batch.id.number);
}

bool is_of_another(const Origin& origin, const CostBatch& batch) {
  return !batch.node.empty() && origin.node != batch.node;
}

// No agent's own origin has a slash in its name.
std::string name_apart(const CostBatch& batch) {
  return batch.id.origin + "/of/" + batch.node;
}

// Origins that began together, such as the agents of a cluster, take turns.
bool is_due(const Origin& origin, std::int64_t number) {
  return (number % kFoldEvery + origin.id % kFoldEvery) % kFoldEvery == 0;
}

}  // namespace

void KnownRows::remember(const std::map<CostKey, std::int64_t>& keys, const std::set<std::string>& fingerprints) {
  if (keys_.size() + keys.size() > kMostKeys) keys_.clear();
  if (keys.size() <= kMostKeys) keys_.insert(keys.begin(), keys.end());
  if (fingerprints_.size() + fingerprints.size() > kMostFingerprints) fingerprints_.clear();
  if (fingerprints.size() <= kMostFingerprints) fingerprints_.insert(fingerprints.begin(), fingerprints.end());
}

Result<std::vector<bool>> BatchInsertion::run() {
  TRIMTAB_TRY_STATUS(find_origins());
  TRIMTAB_TRY_STATUS(find_new());
  TRIMTAB_TRY_STATUS(put_fingerprints());
  TRIMTAB_TRY_STATUS(find_keys());
  TRIMTAB_TRY_STATUS(store());
  TRIMTAB_TRY_STATUS(fold());
  return is_new_;
}

void BatchInsertion::tell(KnownRows& known) const {
  if (!names_server(database_.name())) known.remember(ids_, fingerprints_);
}

// Those apart are locked after the origins that they stand beside: who has none of the one waits for none of the other.
Status BatchInsertion::find_origins() {
  std::set<std::string> names;
  for (const CostBatch& batch : batches_) names.insert(batch.id.origin);
  TRIMTAB_TRY(origins_, cost_tables::intern_origins(database_, names));
  std::vector<Origin> taken;
  std::set<std::string> apart;
  for (const CostBatch& batch : batches_) {
    Origin& origin = origins_.at(batch.id.origin);
    if (origin.node.empty() && !batch.node.empty()) {
      origin.node = batch.node;
      taken.push_back(origin);
    }
    if (is_of_another(origin, batch)) apart.insert(name_apart(batch));
  }
  if (!taken.empty()) TRIMTAB_TRY_STATUS(cost_tables::put_nodes(database_, taken));
  if (apart.empty()) return {};
  TRIMTAB_TRY(auto others, cost_tables::intern_origins(database_, apart));
  origins_.merge(others);
  return {};
}

const Origin& BatchInsertion::origin_of(const CostBatch& batch) const {
  const Origin& named = origins_.at(batch.id.origin);
  return is_of_another(named, batch) ? origins_.at(name_apart(batch)) : named;
}

Status BatchInsertion::find_new() {
  is_new_.assign(batches_.size(), false);
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  std::vector<std::size_t> asked;
  Rows arguments;
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    const Origin& origin = origin_of(batches_[i]);
    const std::int64_t number = number_of(batches_[i]);
    const bool folded = number >= 1 && number <= origin.folded;
    if (folded || !seen.emplace(origin.id, number).second) continue;
    asked.push_back(i);
    arguments.push_back({origin.id, number});
  }
  TRIMTAB_TRY(const auto found,
              database_.query_each("SELECT 1 FROM batches WHERE origin = ? AND number = ?", arguments));
  for (std::size_t i = 0; i < asked.size(); ++i) is_new_[asked[i]] = found[i].empty();
  return {};
}

Status BatchInsertion::put_fingerprints() {
  std::map<std::string, const std::string*> texts;
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    const std::optional<NamedFingerprint>& fingerprint = batches_[i].fingerprint;
    // Without costs nothing names it: nobody would ever read its text.
    if (!is_new_[i] || !fingerprint || batches_[i].costs.empty() || known_.has_fingerprint(fingerprint->hash()))
      continue;
    texts[fingerprint->hash()] = &fingerprint->json();
  }
  for (const auto& [hash, json] : texts) {
    TRIMTAB_TRY_STATUS(cost_tables::put_fingerprint(database_, hash, *json));
    fingerprints_.insert(hash);
  }
  return {};
}

Status BatchInsertion::find_keys() {
  std::set<CostKey> unknown;
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    if (!is_new_[i]) continue;
    for (const Cost& cost : batches_[i].costs) {
      // Known keys are canonical; most that come are, too.
      if (known_.keys().contains(cost.key)) continue;
      CostKey key = canonical(cost.key);
      if (!known_.keys().contains(key)) unknown.insert(std::move(key));
    }
  }
  if (unknown.empty()) return {};
  TRIMTAB_TRY(ids_, cost_tables::intern_keys(database_, unknown));
  return {};
}

std::int64_t BatchInsertion::id_of(const CostKey& spelled) const {
  if (const auto known = known_.keys().find(spelled); known != known_.keys().end()) return known->second;
  const CostKey key = canonical(spelled);
  const auto known = known_.keys().find(key);
  return known != known_.keys().end() ? known->second : ids_.at(key);
}

// One line a key, also where the caller names a key twice or spells it in two ways; without those that have no values.
std::string BatchInsertion::text_of(const std::vector<Cost>& costs) const {
  std::vector<std::pair<std::int64_t, const Statistics*>> keyed;
  keyed.reserve(costs.size());
  for (const Cost& cost : costs) {
    if (!cost.statistics.empty()) keyed.emplace_back(id_of(cost.key), &cost.statistics);
  }
  std::ranges::sort(keyed);
  std::string text;
  for (std::size_t i = 0; i < keyed.size();) {
    const std::int64_t id = keyed[i].first;
    const Statistics* first = keyed[i++].second;
    if (i == keyed.size() || keyed[i].first != id) {
      cost_tables::append_cost(text, id, *first);
      continue;
    }
    Statistics sum = *first;
    for (; i < keyed.size() && keyed[i].first == id; ++i) sum.merge(*keyed[i].second);
    cost_tables::append_cost(text, id, sum);
  }
  return text;
}

Status BatchInsertion::store() {
  std::vector<SingleBatch> rows;
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    if (!is_new_[i]) continue;
    const CostBatch& batch = batches_[i];
    TRIMTAB_ASSERT(batch.fingerprint || batch.costs.empty(), "costs belong to a fingerprint");
    const std::string fingerprint = batch.fingerprint ? batch.fingerprint->hash() : "";
    rows.push_back({origin_of(batch).id, number_of(batch), fingerprint, batch.source, text_of(batch.costs)});
  }
  return cost_tables::insert_batches(database_, std::move(rows));
}

Status BatchInsertion::fold() {
  std::map<std::int64_t, const Origin*> due;
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    const Origin& origin = origin_of(batches_[i]);
    if (is_new_[i] && is_due(origin, number_of(batches_[i]))) due[origin.id] = &origin;
  }
  for (const auto& [id, origin] : due) TRIMTAB_TRY_STATUS(cost_tables::fold(database_, *origin));
  return {};
}

}  // namespace trimtab
