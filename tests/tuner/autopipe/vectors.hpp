#pragma once

// autopipe_vectors.json: pipelines, partitions and slicings with their times, worked out by event simulation and by
// enumeration apart from this program, and what the authors' planner says of them.

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>

namespace trimtab::tuner::test {

[[nodiscard]] inline nlohmann::json autopipe_vectors() {
  std::ifstream in(TRIMTAB_SOURCE_DIR "/tests/tuner/autopipe/autopipe_vectors.json");
  return nlohmann::json::parse(in);
}

}  // namespace trimtab::tuner::test
