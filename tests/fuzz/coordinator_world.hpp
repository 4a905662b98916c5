#pragma once

// The coordinator behind its network: what agents and people say comes by hand, time stands still until it is moved.

#include <spdlog/spdlog.h>

#include <cstdint>
#include <string>

#include "../coordinator/hello_message.hpp"
#include "agents.hpp"
#include "api.hpp"
#include "base/check.hpp"
#include "target.hpp"
#include "wire/agent.pb.h"

namespace trimtab::fuzz {

// Two nodes of one device each, and a job that has begun on them.
struct CoordinatorWorld {
  CoordinatorWorld() {
    spdlog::set_level(spdlog::level::off);
    hello("n0", 1);
    hello("n1", 2);
    Job job;
    job.name = "job";
    job.world_size = 2;
    job.steps = 10;
    job.describe = {"describe"};
    job.benchmark = {"benchmark"};
    job.train = {"train"};
    TRIMTAB_ASSERT(jobs.submit(job, true).ok(), "a plain job is taken");
  }
  void hello(const std::string& node, std::uint64_t peer) {
    agents.message(peer, test::hello_of(node, "of " + node, to_json(Fingerprint{})).SerializeAsString());
  }

  ScratchDirectory directory;
  ManualClock clock;
  net::EventLoop loop;
  coordinator::StateStore store = coordinator::StateStore::open(directory.path() + "/state.db").value();
  CostDatabase costs = CostDatabase::open(directory.path() + "/costs.db", OpenMode::kCreate).value();
  coordinator::SearchWorker worker{loop, clock};
  coordinator::Membership members{clock};
  coordinator::Services services{
      clock,
      store,
      costs,
      worker,
      members,
      {},
      {},
      directory.path() + "/tables",
      [this](const std::string& node, const wire::ToAgent& to) { return agents.send(node, to); },
      {}};
  coordinator::JobTable jobs{services};
  std::uint64_t sent_bytes = 0;
  coordinator::Agents agents{services,
                             jobs,
                             {[this](std::uint64_t, const std::string& frame) {
                                sent_bytes += frame.size();
                                return true;
                              },
                              [](std::uint64_t) {}}};
};

}  // namespace trimtab::fuzz
