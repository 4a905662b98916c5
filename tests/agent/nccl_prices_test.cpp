// From NCCL to a price: two ranks whose "NCCL" plays a stream of collectives and transfers with our plugin, the agent's
// program that reads their rings, the coordinator's join, its database, and what the tuner then says they cost.

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "agents/membership.hpp"
#include "costs/collective_intake.hpp"
#include "fake_coordinator.hpp"
#include "jobs/search_worker.hpp"
#include "native/costs/link_costs.hpp"
#include "schema/cost_database.hpp"
#include "schema/nccl.hpp"
#include "services.hpp"
#include "state_store.hpp"
#include "tuner/cost_choice.hpp"
#include "wire/agent.pb.h"

using namespace trimtab;
using namespace trimtab::agent;
using wire::RankEvent;

namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kBytes = 1 << 20;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What both ranks do, and how long it truly takes. Whoever comes first waits for milliseconds.
struct Streams {
  std::string ranks[2];
  std::vector<double> all_reduces;  // ms
  std::vector<double> transfers;    // ms

  explicit Streams(std::uint64_t seed) : random_(seed) {
    for (int i = 0; i < 60; ++i) {
      const std::int64_t early = between(kMillisecond, 3 * kMillisecond);
      const std::int64_t takes = between(900'000, 1'100'000);
      const int late_rank = i % 3 == 0 ? 0 : 1;
      for (int rank = 0; rank < 2; ++rank) {
        line(rank, "AllReduce", 0, kBytes / 4, rank == late_rank ? early : 0, early + takes);
      }
      all_reduces.push_back(static_cast<double>(takes) * 1e-6);
      at_ += 12 * kMillisecond;
    }
    for (int i = 0; i < 40; ++i) {
      const std::int64_t early = between(3 * kMillisecond, 5 * kMillisecond);
      const std::int64_t takes = between(1'800'000, 2'200'000);
      line(0, "Send", 1, kBytes / 2, early, early + takes);
      line(1, "Recv", 0, kBytes / 2, 0, early + takes + 3'000);
      transfers.push_back(static_cast<double>(takes) * 1e-6);
      at_ += 14 * kMillisecond;
    }
  }

 private:
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low));
  }
  void line(int rank, const std::string& function, int peer, std::int64_t elements, std::int64_t begin,
            std::int64_t end) {
    ranks[rank] += function + " " + std::to_string(peer) + " " + std::to_string(elements) + " " +
                   std::to_string(at_ + begin) + " " + std::to_string(at_ + end) + "\n";
  }

  std::mt19937_64 random_;
  std::int64_t at_ = 20 * kMillisecond;
};

// The coordinator's side of it, on a database of its own.
struct Intake {
  TemporaryDirectory directory;
  ManualClock clock;
  net::EventLoop loop;
  coordinator::StateStore store = coordinator::StateStore::open(directory / "state.db").value();
  CostDatabase costs = CostDatabase::open(directory / "costs.db", OpenMode::kCreate).value();
  coordinator::SearchWorker worker{loop, clock};
  coordinator::Membership members{clock};
  coordinator::Services services{clock, store, costs, worker, members, {}, directory / "", {}, {}};
  coordinator::CollectiveIntake collectives{services.for_costs, services.clocks, store.identity()};

  std::vector<Cost> priced_by(const std::vector<wire::FromAgent>& messages) {
    std::string fingerprint;
    for (const wire::FromAgent& message : messages) {
      if (!message.has_collective_stamps()) continue;
      fingerprint = message.collective_stamps().fingerprint_json();
      collectives.take(message.collective_stamps(), "n0", 2);
    }
    clock.advance(coordinator::CollectiveIntake::kStorePeriod);
    collectives.tick();
    return costs.costs(hash(parse_fingerprint(fingerprint, "test").value())).value();
  }
};

std::uint64_t realtime_ns() {
  return static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

}  // namespace

TEST_CASE("after training, an all-reduce and a transfer cost the median of what moved, waiting excluded", "[nccl]") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  const Streams streams(seed);
  FakeCoordinator coordinator;
  for (int rank = 0; rank < 2; ++rank) {
    std::ofstream(coordinator.directory / ("stream-" + std::to_string(rank))) << streams.ranks[rank];
  }
  coordinator.start_agent({{"--inject", INJECT_LIBRARY}});
  coordinator.wait_for_hello();
  Job job = coordinator.job();
  job.train = {NCCL_HOST, "load", "ranks:2/{rank}", "stream:" + (coordinator.directory / "stream-{rank}"), "finalize"};
  job.environment["TRIMTAB_NCCL_DETAIL"] = "full";
  job.environment["HOST_BEGIN"] = std::to_string(realtime_ns() + 1'500 * kMillisecond);
  job.environment["HOST_GPU_AHEAD"] = "77000000000";  // GPUs' clocks are not the host's
  coordinator.launch(1, job, {0, 1}, 1);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto& exited = coordinator.wait_for("the end", rank_event(RankEvent::kExited, rank)).rank_event().exited();
    INFO(exited.last_output());
    CHECK(exited.exit_code() == 0);
    CHECK(exited.last_output().find("failures 0") != std::string::npos);
  }
  const auto told = [&](std::uint32_t rank) {
    return coordinator.count([rank](const wire::FromAgent& message) {
      const auto& stamps = message.collective_stamps().stamps();
      return message.collective_stamps().rank() == rank && std::ranges::any_of(stamps, [](const auto& one) {
               return nccl::between_two(static_cast<std::uint8_t>(one.function()));
             });
    });
  };
  coordinator.wait("both ranks' transfers", [&] { return told(0) > 0 && told(1) > 0; });

  Intake intake;
  const std::vector<Cost> costs = intake.priced_by(coordinator.messages);
  // What a busy machine let the ranks play late is left out.
  CHECK(intake.services.counters.collectives.joined >= 20);
  CHECK(intake.services.counters.transfers.joined >= 10);
  Cluster cluster;
  cluster.nodes = {{}};
  cluster.nodes[0].devices = 2;
  const tuner::LinkCosts links(cluster, tuner::choose_costs(costs), false);
  const auto check = [](const tuner::Value& price, double truth) {
    REQUIRE(price.quality == tuner::Quality::kMeasured);
    CHECK(price.mean == Approx(truth).epsilon(0.04));
    CHECK(std::abs(price.mean - truth) <= 1.96 * price.error);
  };
  check(links.all_reduce(kBytes, 2, tuner::Placement::kIntraNode), median(streams.all_reduces));
  check(links.point_to_point(kBytes, 0, 0), median(streams.transfers));
}
