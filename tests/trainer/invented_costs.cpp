// A cost database with every cost that some plan of the model on the cluster needs, invented from a seed: what grows in
// truth grows, and beyond that each seed is another machine, whose best plans are others.
//
//   invented_costs MODEL.json CLUSTER.json SEED OUT.db [nothing-kept]     prints the database's fingerprint
//
// With nothing-kept, operators keep and work with no bytes: what is left of a plan's memory are its states.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "schema/cost_database.hpp"
#include "tuner/needed_costs.hpp"

using namespace trimtab;

namespace {

std::string read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

double usual(const CostKey& key) {
  const double samples = std::max(1, key.samples);
  const double share = samples / std::max(1, key.tp);
  const auto bytes = static_cast<double>(key.bytes);
  switch (key.kind) {
    case CostKind::kOperatorForward:
      return 50'000 + 300'000 * share;
    case CostKind::kOperatorBackward:
      return 80'000 + 600'000 * share;
    case CostKind::kOperatorStoredBytes:
      return 60'000 * share;
    case CostKind::kOperatorWorkingBytes:
      return 30'000 * share;
    case CostKind::kOptimizerStep:
      return 200'000;
    case CostKind::kCollective:
      return 60'000 + bytes / 2;
    case CostKind::kPointToPoint:
      return 40'000 + bytes / 4;
    case CostKind::kOverlapComputation:
    case CostKind::kOverlapCommunication:
      return 1'100'000;  // ppm
    default:
      return 100'000;
  }
}

template <typename T>
T whole(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "invented_costs: %s\n", result.error().message.c_str());
  std::exit(2);
}

}  // namespace

int main(int count, char** words) {
  const bool nothing_kept = count == 6 && std::string(words[5]) == "nothing-kept";
  if (count != 5 && !nothing_kept) {
    std::fprintf(stderr, "usage: invented_costs MODEL.json CLUSTER.json SEED OUT.db [nothing-kept]\n");
    return 2;
  }
  const Model model = whole(parse_model(read(words[1]), words[1]));
  const Cluster cluster = whole(parse_cluster(read(words[2]), words[2]));
  Knobs every;
  for (const KnobName& name : kKnobs) every.*name.knob = true;
  Random random(std::strtoull(words[3], nullptr, 10));
  std::vector<Cost> costs;
  for (const CostKey& key : tuner::needed_costs(model, cluster, every, {})) {
    Cost& cost = costs.emplace_back();
    cost.key = key;
    const bool activations = key.kind == CostKind::kOperatorStoredBytes || key.kind == CostKind::kOperatorWorkingBytes;
    const double scale = nothing_kept && activations ? 0 : 1;
    const double value = scale * usual(key) * std::exp2(4 * random.uniform() - 2);
    for (const double jitter : {0.99, 1.0, 1.01}) cost.statistics.add(std::llround(value * jitter));
  }
  Fingerprint fingerprint;
  fingerprint.device["cpu"] = "invented";
  CostDatabase database = whole(CostDatabase::open(words[4], OpenMode::kCreate));
  whole(database.add_batch({"invented", 1}, fingerprint, "active", costs));
  std::printf("%s\n", hash(fingerprint).c_str());
  return 0;
}
