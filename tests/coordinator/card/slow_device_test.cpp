// A slow device is named by its kernels' own times, where what ranks have to do differs; noise names none.

#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.hpp"
#include "card/card_fold.hpp"
#include "made_job.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using namespace trimtab::test;

namespace {

constexpr std::int32_t kRanks = 8;

// Devices that differ a little, are disturbed for some looks, and have more or less to do in each.
class Devices {
 public:
  explicit Devices(std::uint64_t seed, std::int64_t stages) : random_(seed), fold_("made", kRanks), stages_(stages) {
    for (std::int32_t rank = 0; rank < kRanks; ++rank) {
      own_[rank] = 0.01 * random_.normal();
      api::RankFacts facts;
      facts.framework = "ddp";
      facts.device = "cuda";
      facts.stages = stages > 1 ? stages : 0;
      facts.stage = rank * stages / kRanks;
      fold_.connected(rank, "n0", 0);
      fold_.facts(rank, facts);
    }
  }

  void look(int times, std::int32_t slow = -1) {
    for (int i = 0; i < times; ++i) {
      machine_ = 0.9 * machine_ + 0.02 * random_.normal();
      for (std::int32_t rank = 0; rank < kRanks; ++rank) {
        disturbed_[rank] = 0.9 * disturbed_[rank] + 0.005 * random_.normal();
        one_look(rank, machine_ + disturbed_[rank] + own_[rank] + (rank == slow ? std::log(1.08) : 0));
      }
    }
  }

  // "slow_rank 3"; "none".
  [[nodiscard]] std::string slow_rank() const {
    for (const api::CardFinding& one : fold_.card().findings) {
      if (one.name == api::FindingName::kSlowRank) return "slow_rank " + std::to_string(*one.rank) + ": " + one.why;
    }
    return "none";
  }

 private:
  void one_look(std::int32_t rank, double longer) {
    api::LiveRank told;
    told.source = "kernels";
    told.steps_measured = 10;
    told.step_ms = 200;
    const double work = 0.35 + 0.3 * random_.uniform();
    told.shares = api::LiveShares{work, 0.9 - work, 0, 0.1, 0};
    const double usual[] = {800, 300, 120, 45};
    for (int kernel = 0; kernel < 4; ++kernel) {
      const double us = usual[kernel] * std::exp(longer + 0.02 * random_.normal());
      const std::string name =
          "kernel " + std::to_string(kernel) + " of stage " + std::to_string(rank * stages_ / kRanks);
      told.busiest.push_back({name, "gemm", false, 0.2, 20 + random_.below(40), us});
    }
    fold_.activity(rank, told);
  }

  Random random_;
  CardFold fold_;
  std::int64_t stages_;
  double own_[kRanks] = {};
  double disturbed_[kRanks] = {};
  double machine_ = 0;
};

}  // namespace

TEST_CASE("a device that is 8 % slow is named by its kernels, however much its rank has to do", "[slow_device]") {
  const std::int64_t stages = GENERATE(1, 2, 8);
  int missed = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Devices devices(seed, stages);
    const auto slow = static_cast<std::int32_t>(seed % kRanks);
    if (stages == kRanks) devices.look(12);  // it becomes slow: no other rank does the same
    devices.look(32, slow);
    const std::string found = devices.slow_rank();
    missed += found.starts_with("slow_rank " + std::to_string(slow)) ? 0 : 1;
    if (seed > 1) continue;
    CHECK_THAT(found, Catch::Contains("kernels take") && Catch::Contains(" sure: its device is slow"));
    CHECK_THAT(found, Catch::Contains(stages == 8 ? "than they did at first" : "than the same ones of the others"));
  }
  INFO(stages << " stages");
  CHECK(missed < 5);
}

TEST_CASE("where no device is slow none is named", "[slow_device]") {
  const std::int64_t stages = GENERATE(1, 2, 8);
  int named = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Devices devices(1000 + seed, stages);
    devices.look(44);
    named += devices.slow_rank() == "none" ? 0 : 1;
  }
  INFO(stages << " stages");
  CHECK(named < 2);
}
