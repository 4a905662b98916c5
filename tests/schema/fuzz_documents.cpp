// fuzz_documents ITERATIONS [SEED]: mutates valid documents and gives them to every parser. Nothing may crash, every
// refusal says something in valid UTF-8, and what is accepted is a fixed point of writing and reading.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "base/check.hpp"
#include "base/random.hpp"
#include "sample_documents.hpp"
#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/fingerprint.hpp"
#include "schema/job.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"
#include "schema/prediction.hpp"
#include "schema/statistics.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

constexpr const char* kInserted[] = {"9223372036854775808",
                                     "-1",
                                     "1e400",
                                     "0.5",
                                     "null",
                                     "true",
                                     "[]",
                                     "{}",
                                     "\"\"",
                                     "\\u0000",
                                     "\xff",
                                     ",",
                                     ":",
                                     "\"",
                                     "[[",
                                     "18446744073709551615",
                                     "2147483648",
                                     "1;2;3",
                                     "\n",
                                     "= ",
                                     "[a]\n",
                                     "1e-400",
                                     "-0.0",
                                     "\xf0\x9f\x98\x80"};

std::size_t place_in(const std::string& text, Random& random) {
  return random.below(text.size() + 1);
}

void mutate_once(std::string& text, Random& random) {
  const std::size_t at = place_in(text, random);
  const std::size_t length = random.below(12);
  switch (random.below(6)) {
    case 0:
      text.erase(at, length);
      return;
    case 1:
      text.insert(at, kInserted[random.below(std::size(kInserted))]);
      return;
    case 2:
      text.insert(at, text.substr(place_in(text, random), length));
      return;
    case 3:
      if (at < text.size()) text[at] = static_cast<char>(random.below(256));
      return;
    case 4:
      if (at < text.size() && text[at] >= '0' && text[at] <= '9') text[at] = static_cast<char>('0' + random.below(10));
      return;
    default: {
      // Replaces a whole value: up to the next separator.
      const std::size_t colon = text.find(':', at);
      const std::size_t end = colon == std::string::npos ? colon : text.find_first_of(",}]", colon);
      if (end != std::string::npos)
        text.replace(colon + 1, end - colon - 1, kInserted[random.below(std::size(kInserted))]);
    }
  }
}

bool is_utf8(const std::string& text) {
  // Fingerprints replace what is no UTF-8, so only valid text survives the way through JSON.
  Fingerprint fingerprint;
  fingerprint.device["text"] = text;
  return parse_fingerprint(to_json(fingerprint), "").value().device["text"] == text;
}

void check_refusal(const Error& error) {
  TRIMTAB_ASSERT(!error.message.empty(), "a refusal says why");
  TRIMTAB_ASSERT(is_utf8(error.message), "a refusal is valid UTF-8");
  TRIMTAB_ASSERT(error.message.size() < 5000, "a refusal can be read");
}

// Returns whether the text was accepted.
template <typename Parse, typename Write>
bool check(const std::string& text, const Parse& parse, const Write& write) {
  const auto first = parse(text);
  if (!first.ok()) {
    check_refusal(first.error());
    return false;
  }
  const std::string written = write(*first);
  const auto second = parse(written);
  TRIMTAB_ASSERT(second.ok(), "what we write we can read");
  TRIMTAB_ASSERT(write(*second) == written, "writing and reading is a fixed point");
  return true;
}

// Of each parser alike: the source's name in front of the error.
template <typename T>
auto parser(Result<T> (*parse)(std::string_view, std::string_view)) {
  return [parse](const std::string& text) { return parse(text, "fuzz.json"); };
}

template <typename T>
std::string write_json(const T& value) {
  return to_json(value);
}

bool check_plan(const std::string& text) {
  if (!check(text, parser(parse_plan), write_json<Plan>)) return false;
  const Plan plan = parse_plan(text, "").value();
  TRIMTAB_ASSERT(semantic_hash(plan) == semantic_hash(parse_plan(to_json(plan), "").value()), "a hash is stable");
  return true;
}

bool check_job_toml(const std::string& text) {
  const auto parsed = parse_job_toml(text, "fuzz.toml", "/d");
  if (!parsed.ok()) {
    check_refusal(parsed.error());
    return false;
  }
  return check(to_json(parsed->job), parser(parse_job), write_json<Job>);
}

bool check_statistics(const std::string& text) {
  const bool accepted = check(
      text, [](const std::string& t) { return Statistics::decode(t); }, [](const Statistics& s) { return s.encode(); });
  if (!accepted) return false;
  Statistics statistics = Statistics::decode(text).value();
  statistics.merge(Statistics(statistics));
  if (statistics.empty()) return true;
  TRIMTAB_ASSERT(statistics.variance() >= 0, "no variance is negative");
  TRIMTAB_ASSERT(statistics.median() >= 0, "no quantity is negative");
  return true;
}

bool check_document(DocumentKind kind, const std::string& text) {
  switch (kind) {
    case DocumentKind::kPlan:
      return check_plan(text);
    case DocumentKind::kModel:
      return check(text, parser(parse_model), write_json<Model>);
    case DocumentKind::kCluster:
      return check(text, parser(parse_cluster), write_json<Cluster>);
    case DocumentKind::kPrediction:
      return check(text, parser(parse_prediction), write_json<Prediction>);
    case DocumentKind::kJob:
      return check(text, parser(parse_job), write_json<Job>);
    case DocumentKind::kJobToml:
      return check_job_toml(text);
    case DocumentKind::kFingerprint:
      return check(text, parser(parse_fingerprint), write_json<Fingerprint>);
    case DocumentKind::kCostKey:
      return check(
          text, [](const std::string& t) { return parse_cost_key(t); }, write_json<CostKey>);
    case DocumentKind::kStatistics:
      return check_statistics(text);
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t iterations = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10000;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::random_device{}();
  std::printf("fuzz_documents %llu %llu\n", static_cast<unsigned long long>(iterations),
              static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  Random random(seed);
  std::uint64_t accepted = 0;
  for (const SampleDocument& document : sample_documents()) {
    TRIMTAB_ASSERT(check_document(document.kind, document.text), "every sample is accepted unchanged");
  }
  for (std::uint64_t i = 0; i < iterations; ++i) {
    const SampleDocument& document = sample_documents()[random.below(sample_documents().size())];
    std::string text = document.text;
    for (std::uint64_t mutations = 1 + random.below(3); mutations > 0; --mutations) mutate_once(text, random);
    if (check_document(document.kind, text)) ++accepted;
  }
  std::printf("%llu of %llu mutated documents were accepted\n", static_cast<unsigned long long>(accepted),
              static_cast<unsigned long long>(iterations));
  // A fuzzer of which nothing passes the parsers would test nothing behind them.
  return iterations == 0 || accepted > iterations / 50 ? 0 : 1;
}
