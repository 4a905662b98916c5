// Writes a job's documents for one of the paper's settings, timed by arithmetic: model.json, cluster.json and costs.db,
// for `trimtab search --strategy h3t`. Usage: h3t_documents DIRECTORY [MACHINE 0|1] [SIZE 0..2] [SAMPLES] [MEMORY]

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "../../tests/tuner/h3t/analytic_documents.hpp"
#include "schema/cost_database.hpp"

using namespace trimtab;                    // NOLINT
using namespace trimtab::tuner::h3t::test;  // NOLINT

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY [MACHINE 0|1] [SIZE 0..2] [SAMPLES] [MEMORY]\n", arguments[0]);
    return 2;
  }
  const auto number = [&](int index, int otherwise) { return count > index ? std::atoi(arguments[index]) : otherwise; };
  const auto machine = static_cast<std::size_t>(number(2, 0));
  const auto size = static_cast<std::size_t>(number(3, 0));
  const Result<Bytes> memory = parse_bytes(count > 5 ? arguments[5] : "8000MiB");
  if (machine >= machines().size() || size >= sizes().size() || number(4, 16) < 1 || !memory) {
    std::fprintf(stderr, "%s: no such setting\n", arguments[0]);
    return 2;
  }
  Documents documents = analytic_documents(machines()[machine], sizes()[size], number(4, 16));
  documents.cluster.nodes.front().memory_bytes = *memory;
  const std::filesystem::path directory = arguments[1];
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "model.json") << to_json(documents.model) << "\n";
  std::ofstream(directory / "cluster.json") << to_json(documents.cluster) << "\n";
  std::filesystem::remove(directory / "costs.db");
  Fingerprint fingerprint;
  fingerprint.device["model"] = "analytic " + machines()[machine].name;
  Result<CostDatabase> database = CostDatabase::open(directory / "costs.db", OpenMode::kCreate);
  if (!database.ok()) {
    std::fprintf(stderr, "%s\n", database.error().message.c_str());
    return 3;
  }
  const auto stored = database->add_batch({"analytic", 1}, fingerprint, "import:analytic", documents.costs);
  if (!stored.ok()) {
    std::fprintf(stderr, "%s\n", stored.error().message.c_str());
    return 3;
  }
  return 0;
}
