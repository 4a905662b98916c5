#include "published/aceso/cache.hpp"

#include <charconv>
#include <cmath>

#include "documents/json_document.hpp"
#include "published/pickle_document.hpp"

namespace trimtab::published {

namespace {

constexpr double kMib = 1048576;
constexpr double kMostMib = 1e9;
constexpr double kMostMs = 1e9;

// "all_gather_2gpus_2.5_torch.float16" in three parts; false for the key of an operator.
bool split_collective(std::string_view key, std::string& kind, double& mib) {
  const std::size_t type = key.rfind("_torch.");
  if (type == std::string_view::npos) return false;
  const std::string_view front = key.substr(0, type);
  const std::size_t size = front.rfind("gpus_");
  if (size == std::string_view::npos) return false;
  const std::string_view digits = front.substr(size + 5);
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), mib);
  if (failure != std::errc{} || end != digits.data() + digits.size() || !(mib >= 0 && mib <= kMostMib)) return false;
  kind = std::string(front.substr(0, size + 4)) + " " + std::string(key.substr(type + 1));
  return true;
}

}  // namespace

Result<AcesoCache> AcesoCache::read(const std::string& directory, const std::vector<std::string>& names) {
  AcesoCache cache;
  for (const std::string& name : names) {
    if (name.ends_with(".pkl")) TRIMTAB_TRY_STATUS(cache.read_file(directory, name));
  }
  return cache;
}

Status AcesoCache::read_file(const std::string& directory, const std::string& name) {
  TRIMTAB_TRY(TextFile file, read_raw_file(directory, name));
  TRIMTAB_TRY(const PickleDocument pickle, PickleDocument::parse(std::move(file)));
  const PickleNode* const results = pickle.find(pickle.root(), "profiled_results");
  if (results == nullptr || results->kind != PickleKind::kMapping) {
    return bad_input(pickle.path() +
                     ": expected the cache of Aceso's profiler, a dictionary with 'profiled_results'; "
                     "to read the tables beside it alone, move this file away");
  }
  for (std::size_t i = 0; i + 1 < results->children.size(); i += 2) {
    const PickleNode& key = pickle.at(results->children[i]);
    const PickleNode& value = pickle.at(results->children[i + 1]);
    const auto refuse = [&](const std::string& expected) {
      return bad_input(pickle.path() + ": profiled_results[" + quoted_text(key.text) + "]: expected " + expected);
    };
    if (key.kind != PickleKind::kText) return refuse("a text as key");
    std::string kind;
    Collective collective;
    if (split_collective(key.text, kind, collective.mib)) {
      const bool time = value.kind == PickleKind::kNumber && value.number >= 0 && value.number <= kMostMs;
      if (!time) return refuse("a time in ms, at most 1e9");
      collective.ms = value.number;
      collectives_[kind].push_back(collective);
      continue;
    }
    if (value.kind != PickleKind::kSequence || value.children.size() != kCachedValues) return refuse("eight numbers");
    std::vector<double> values;
    for (const std::uint32_t child : value.children) {
      if (pickle.at(child).kind != PickleKind::kNumber) return refuse("eight numbers");
      values.push_back(pickle.at(child).number);
    }
    operators_.insert_or_assign(std::string(key.text), std::move(values));
  }
  return {};
}

const std::vector<double>* AcesoCache::operator_values(const std::string& key) const {
  const auto found = operators_.find(key);
  return found == operators_.end() ? nullptr : &found->second;
}

Bytes AcesoCache::collective_bytes(const std::string& kind, const std::string& type, std::int64_t mib,
                                   double ms) const {
  const auto found = collectives_.find(kind + " " + type);
  if (found == collectives_.end()) return -1;
  const auto thousandths = [](double value) { return std::llround(value * 1000); };
  for (const Collective& one : found->second) {
    const bool same = std::llrint(one.mib) == mib && thousandths(one.ms) == thousandths(ms);
    if (same) return std::llround(one.mib * kMib);
  }
  return -1;
}

}  // namespace trimtab::published
