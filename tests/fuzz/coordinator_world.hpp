#pragma once

// The coordinator behind its network: what agents and people say comes by hand, time stands still until it is moved.

#include <spdlog/spdlog.h>

#include <cstdint>
#include <functional>
#include <string>

#include "../coordinator/hello_message.hpp"
#include "agents/agents.hpp"
#include "api/api.hpp"
#include "base/check.hpp"
#include "costs/cost_tables.hpp"
#include "jobs/search_worker.hpp"
#include "kept_database.hpp"
#include "services.hpp"
#include "state_store.hpp"
#include "target.hpp"
#include "wire/agent.pb.h"

namespace trimtab::fuzz {

// What all worlds of a process use in turn: the databases, as they are when they have just been made.
class CoordinatorPlace {
 public:
  // For the next world; the one before is gone.
  void renew() {
    kept_state_.put_back();
    // A cost database remembers what it has stored of these.
    const bool remembers = !kept_costs_.is_empty("fingerprints") || !kept_costs_.is_empty("cost_keys");
    kept_costs_.put_back();
    if (remembers) costs_ = open_costs();
    tables_.clear();
  }
  [[nodiscard]] coordinator::StateStore& store() { return store_; }
  [[nodiscard]] CostDatabase& costs() { return costs_; }
  [[nodiscard]] const std::string& tables() const { return tables_.path(); }

 private:
  [[nodiscard]] CostDatabase open_costs() const {
    return CostDatabase::open(directory_.path() + "/costs.db", OpenMode::kCreate).value();
  }

  ScratchDirectory directory_;
  ScratchDirectory tables_;
  coordinator::StateStore store_ = coordinator::StateStore::open(directory_.path() + "/state.db").value();
  CostDatabase costs_ = open_costs();
  KeptDatabase kept_state_{store_.name(), coordinator::state_migrations()};
  KeptDatabase kept_costs_{costs_.name(), cost_tables::migrations()};
};

// Never answers: a search is the tuner's matter, and when it ends is another thread's.
class UnansweredSearches : public coordinator::Searches {
 public:
  void enqueue(coordinator::SearchTask /*task*/, std::function<void(coordinator::SearchReply)> /*done*/) override {}
};

// Two nodes of one device each, and a job that has begun on them.
struct CoordinatorWorld {
  CoordinatorWorld() {
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
  static CoordinatorPlace& renewed_place() {
    static CoordinatorPlace place = [] {
      spdlog::set_level(spdlog::level::off);
      keep_files_in_memory();
      return CoordinatorPlace();
    }();
    place.renew();
    return place;
  }

  CoordinatorPlace& place = renewed_place();
  ManualClock clock;
  UnansweredSearches searches;
  coordinator::Membership members{clock};
  coordinator::Services services{
      clock,
      place.store(),
      place.costs(),
      searches,
      members,
      {},
      place.tables(),
      [this](const std::string& node, const wire::ToAgent& to) { return agents.send(node, to); },
      {}};
  coordinator::JobTable jobs{services.for_jobs};
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
