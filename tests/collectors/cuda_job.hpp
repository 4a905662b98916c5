#pragma once

// CUDA programs with the library in them: a fake driver, a scripted libcupti that aborts when one of its rules is
// broken, an agent that only takes rings.

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "process_rig.hpp"
#include "schema/record.hpp"

namespace rig {

namespace record = trimtab::record;

struct CudaJob {
  TemporaryFolder folder;
  std::string socket = folder.file("agent.sock");
  std::map<std::string, std::string> environment{{"TRIMTAB_SOCKET", socket},
                                                 {"CUDA_INJECTION64_PATH", INJECT_LIBRARY},
                                                 {"TRIMTAB_CUPTI_LIBRARY", FAKE_CUPTI_LIBRARY},
                                                 {"TRIMTAB_FLUSH_MS", "10"},
                                                 {"TRIMTAB_BUDGET", "1"},
                                                 {"FAKE_CUDA", FAKE_CUDA},
                                                 {"FAKE_CUPTI_LIBRARY", FAKE_CUPTI_LIBRARY}};

  CudaJob() = default;
  explicit CudaJob(const std::string& script) { environment["FAKE_CUPTI"] = script; }
  Program run(std::vector<std::string> arguments) { return {CUDA_PROGRAM, std::move(arguments), environment}; }
};

inline std::size_t count_kind(const std::vector<Seen>& records, std::uint16_t kind) {
  return static_cast<std::size_t>(std::ranges::count(records, kind, &Seen::kind));
}
inline const Seen& only_kind(const std::vector<Seen>& records, std::uint16_t kind) {
  REQUIRE(count_kind(records, kind) == 1);
  return *std::ranges::find(records, kind, &Seen::kind);
}

// The records of a program that runs to its end.
inline std::vector<Seen> records_of(CudaJob& job, const std::vector<std::string>& arguments) {
  Agent agent(job.socket);
  Program program = job.run(arguments);
  const auto ring = agent.accept();
  CHECK(program.wait() == 0);
  auto records = ring->take();
  CHECK(ring->counts.malformed == 0);
  CHECK(ring->reader().finished());
  return records;
}

inline record::CuptiReason reason_of(RingConnection& ring) {
  return static_cast<record::CuptiReason>(ring.header().cupti_state.load() & 0xff);
}
inline std::uint32_t result_of(RingConnection& ring) {
  return ring.header().cupti_state.load() >> 16;
}

template <typename Condition>
void wait_until(Condition condition) {
  for (int tries = 0; tries < 10000; ++tries) {
    if (condition()) return;
    pause_a_little();
  }
  give_up_waiting();
}

}  // namespace rig
