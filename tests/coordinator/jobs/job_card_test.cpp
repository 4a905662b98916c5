#include "jobs/job_card.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

Probe link_probe(const std::string& node, const std::string& peer, double ms) {
  Probe probe;
  probe.node = node;
  probe.peer = peer;
  probe.level = "inter_node";
  probe.ms = ms;
  probe.spread = 0.02;
  return probe;
}

// Of two ranks on two nodes, which wait for communication 40 % of their steps.
JobCard waiting_job() {
  JobCard card("job", 2, "");
  card.connected(0, "a", 1);
  card.connected(1, "b", 1);
  for (std::int64_t i = 0; i < 60; ++i) {
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      CardStep step;
      step.step = i;
      step.wall_ns = 100'000'000;
      step.parts = CardParts{};
      step.parts->forward_ns = 20'000'000;
      step.parts->backward_ns = 40'000'000;
      step.parts->communication_ns = 40'000'000;
      card.step(rank, step);
    }
  }
  return card;
}

}  // namespace

TEST_CASE("a card names the processors and GPUs of its nodes, as their agents say") {
  JobCard card = waiting_job();
  CHECK(card.json().find("\"devices\"") == std::string::npos);
  const Fingerprint node{{{"kind", "gpu"}, {"model", "NVIDIA H100"}}, {}, {}, {{"mps", "on"}}};
  card.connected(0, "a", 1, to_json(node));
  card.connected(1, "b", 1, "no JSON");
  const std::string text = card.json();
  CHECK(text.find("NVIDIA H100") != std::string::npos);
  CHECK(text.find("GPUs are shared by MPS") != std::string::npos);
}

TEST_CASE("a link that is slower than at the job's first look stands in its card") {
  JobCard card = waiting_job();
  const std::vector<Probe> first{link_probe("a", "b", 10)};
  Probe cpu = link_probe("a", "", 50);
  cpu.device = 0;
  card.probed({cpu, link_probe("a", "b", 10.2)}, first);
  CHECK(card.json().find("slow_link") == std::string::npos);
  card.probed({cpu, link_probe("a", "b", 20)}, first);
  CHECK(card.json().find("the link of node a to node b carries 52 MB/s, it was 105 MB/s") != std::string::npos);
  card.probed({cpu}, first);  // a look that failed at links says nothing of them
  CHECK(card.json().find("slow_link") != std::string::npos);
}
