// The JSON documents and the texts that go into the cost database. All parsers get the same bytes: what is one document
// is not another. What is accepted is a fixed point of writing and reading.

#include "base/check.hpp"
#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/fingerprint.hpp"
#include "schema/job.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"
#include "schema/statistics.hpp"
#include "target.hpp"

using namespace trimtab;

namespace {

template <typename Parse, typename Write>
bool check(const std::string& text, const Parse& parse, const Write& write) {
  const auto first = parse(text);
  if (!fuzz::judge(first)) return false;
  const std::string written = write(*first);
  const auto second = parse(written);
  TRIMTAB_ASSERT(second.ok(), "what we write we can read");
  TRIMTAB_ASSERT(write(*second) == written, "writing and reading is a fixed point");
  return true;
}

template <typename T>
bool check_json(const std::string& text, Result<T> (*parse)(std::string_view, std::string_view)) {
  return check(
      text, [parse](const std::string& t) { return parse(t, "fuzz.json"); },
      [](const T& value) { return to_json(value); });
}

void check_plan(const std::string& text) {
  if (!check_json(text, parse_plan)) return;
  const Plan plan = parse_plan(text, "").value();
  TRIMTAB_ASSERT(semantic_hash(plan) == semantic_hash(parse_plan(to_json(plan), "").value()), "a hash is stable");
}

void check_cost_key(const std::string& text) {
  check(
      text, [](const std::string& t) { return parse_cost_key(t); }, [](const CostKey& key) { return to_json(key); });
}

void check_statistics(const std::string& text) {
  const bool accepted = check(
      text, [](const std::string& t) { return Statistics::decode(t); }, [](const Statistics& s) { return s.encode(); });
  if (!accepted) return;
  Statistics statistics = Statistics::decode(text).value();
  statistics.merge(Statistics(statistics));
  if (statistics.empty()) return;
  TRIMTAB_ASSERT(statistics.variance() >= 0, "no variance is negative");
  TRIMTAB_ASSERT(statistics.median() >= 0, "no quantity is negative");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  check_plan(text);
  check_json(text, parse_model);
  check_json(text, parse_cluster);
  check_json(text, parse_job);
  check_json(text, parse_fingerprint);
  check_cost_key(text);
  check_statistics(text);
  return 0;
}
