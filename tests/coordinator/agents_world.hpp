#pragma once

// All of a coordinator but its network: agents' frames come in by hand, time is manual.

#include <spdlog/spdlog.h>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agents/agents.hpp"
#include "agents/membership.hpp"
#include "fake_agent.hpp"
#include "hello_message.hpp"
#include "jobs/search_worker.hpp"
#include "schema/nccl.hpp"
#include "services.hpp"
#include "state_store.hpp"
#include "tested_backends.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {

struct World {
  TemporaryDirectory own;
  std::string directory;
  std::optional<trimtab::test::DatabasePlace> databases;  // nothing: files in `directory`
  ManualClock clock;
  ManualClock search_clock;  // of the worker's thread; stands still
  net::EventLoop loop;
  StateStore store = StateStore::open(name_of("state.db")).value();
  CostDatabase costs = CostDatabase::open(name_of("costs.db"), OpenMode::kCreate).value();
  SearchWorker worker{loop, search_clock};
  std::size_t most_nodes = kMostNodes;
  Membership members{clock, kNodeTimeout, most_nodes};
  Services services{clock,
                    store,
                    costs,
                    worker,
                    members,
                    {},
                    directory + "/tables",
                    [this](const std::string& node, const wire::ToAgent& to) { return agents.send(node, to); },
                    {}};
  JobTable jobs{services.for_jobs};
  Nanoseconds sending_takes{0};
  std::set<std::uint64_t> closed;
  std::map<std::uint64_t, std::uint64_t> received_bytes;     // by peer
  std::map<std::uint64_t, std::uint64_t> answered;           // by peer: the clock in the last answer to a heartbeat
  std::map<std::uint64_t, std::vector<wire::ToAgent>> told;  // by peer
  Agents agents{services,
                jobs,
                {[this](std::uint64_t peer, const std::string& frame) {
                   wire::ToAgent to;
                   if (to.ParseFromString(frame) && to.has_heartbeat()) answered[peer] = to.heartbeat().wall_ns();
                   told[peer].push_back(to);
                   clock.advance(sending_takes);
                   return true;
                 },
                 [this](std::uint64_t p) { closed.insert(p); },
                 {},
                 {},
                 [this](std::uint64_t peer) { return received_bytes[peer]; }}};

  // Its databases are in `place`, or in a directory of its own.
  explicit World(const std::string& place = "", std::size_t known_nodes = kMostNodes)
      : directory(place.empty() ? own.path() : place), most_nodes(known_nodes) {
    spdlog::set_level(spdlog::level::off);
  }
  // They are new ones of this kind.
  explicit World(trimtab::test::Backend backend) : directory(own.path()), databases(std::in_place, backend) {
    spdlog::set_level(spdlog::level::off);
  }
  [[nodiscard]] std::string name_of(const std::string& database) const {
    return databases ? databases->name(database) : directory + "/" + database;
  }

  void hello(const std::string& node, std::uint64_t peer) {
    agents.message(peer, trimtab::test::hello_of(node, "of " + node, fingerprint_json()).SerializeAsString());
  }
  void hello_of_tenant(const std::string& node, std::uint64_t peer, const std::string& tenant) {
    wire::FromAgent from = trimtab::test::hello_of(node, "of " + node, fingerprint_json());
    from.mutable_hello()->set_tenant(tenant);
    say(peer, from);
  }
  void say(std::uint64_t peer, const wire::FromAgent& from) { agents.message(peer, from.SerializeAsString()); }
  // The last that this peer was sent.
  wire::Welcome welcome(std::uint64_t peer) {
    wire::Welcome last;
    for (const wire::ToAgent& to : told[peer]) {
      if (to.has_welcome()) last = to.welcome();
    }
    return last;
  }
  std::vector<wire::UnfinishedJobs> unfinished(std::uint64_t peer) {
    std::vector<wire::UnfinishedJobs> all;
    for (const wire::ToAgent& to : told[peer]) {
      if (to.has_unfinished_jobs()) all.push_back(to.unfinished_jobs());
    }
    return all;
  }
  void heartbeat(std::uint64_t peer) {
    wire::FromAgent from;
    from.mutable_heartbeat()->set_sent_ns(1);
    say(peer, from);
  }
  void switch_to(std::uint64_t peer, bool thrown) {
    wire::FromAgent from;
    from.mutable_heartbeat()->set_kill_switch(thrown);
    say(peer, from);
  }
  // A heartbeat of a node whose clock is so far ahead, and the answer to the one before it.
  void heartbeat_ahead(std::uint64_t peer, Nanoseconds ahead) {
    wire::FromAgent from;
    wire::Heartbeat& beat = *from.mutable_heartbeat();
    beat.set_wall_ns(static_cast<std::uint64_t>((clock.wall() + ahead).count()));
    beat.set_answered_ns(answered[peer]);
    beat.set_heard_ns(answered[peer] + static_cast<std::uint64_t>(ahead.count()));
    clock.advance(std::chrono::microseconds(10));
    say(peer, from);
    clock.advance(std::chrono::seconds(2));
  }
  void trace_end(std::uint64_t peer, std::uint64_t trace, const std::string& node) {
    wire::FromAgent from;
    from.mutable_trace_end()->set_id(trace);
    from.mutable_trace_end()->set_node(node);
    say(peer, from);
  }
  // Two nodes, of which n0 has sent all that it has of the trace.
  std::uint64_t half_done_trace() {
    hello("n0", 1);
    hello("n1", 2);
    const std::uint64_t trace = services.traces.start({"gpt", "*"}, {"n0", "n1"}, {2, 0}, {}).value();
    trace_end(1, trace, "n0");
    CHECK(trace_document(trace).at("state") == "running");
    return trace;
  }
  nlohmann::json trace_document(std::uint64_t trace) {
    return nlohmann::json::parse(services.traces.document(trace).value());
  }

  // What an agent says that was acknowledged all below `held_from`, and has numbered up to `last`.
  bool told_to_renew(std::uint64_t peer, const std::string& node, std::uint64_t held_from, std::uint64_t last) {
    wire::FromAgent from = trimtab::test::hello_of(node, "of " + node, fingerprint_json());
    from.mutable_hello()->set_held_from(held_from);
    from.mutable_hello()->set_last_batch(last);
    from.mutable_hello()->set_acknowledged_by(store.identity());
    say(peer, from);
    return welcome(peer).renew_instance();
  }
  void batch(std::uint64_t peer, std::uint64_t number) {
    wire::FromAgent from;
    from.mutable_cost_batch()->set_batch(number);
    from.mutable_cost_batch()->set_fingerprint_json(fingerprint_json());
    say(peer, from);
  }

  JobRun& submit(const std::string& name, const std::string& tenant = "*") {
    Job job;
    job.name = name;
    job.world_size = 2;
    job.share_devices = true;  // there are fewer than jobs
    job.steps = 10;
    job.describe = {"describe"};
    job.benchmark = {"benchmark"};
    job.train = {"train"};
    return *jobs.submit(job, true, tenant).value().job;
  }
  // Both ranks' stamps of one collective.
  void collective(const std::string& job, std::uint32_t sequence) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      wire::FromAgent from;
      wire::CollectiveStamps& stamps = *from.mutable_collective_stamps();
      stamps.set_job(job);
      stamps.set_rank(rank);
      stamps.set_fingerprint_json(fingerprint_json());
      wire::CollectiveStamp& one = *stamps.add_stamps();
      one.set_communicator(77);
      one.set_sequence(sequence);
      one.set_ranks(2);
      one.set_rank(rank);
      one.set_nodes(1);
      one.set_channels(2);
      one.set_bytes(4096);
      one.set_function(nccl::kAllReduce);
      one.set_begin_ns(1'000'000'000 + sequence * 1'000'000);
      one.set_duration_ns(200'000);
      say(rank + 1, from);
    }
  }
  bool has_table(std::int64_t run) const {
    return std::filesystem::exists(directory + "/tables/run-" + std::to_string(run) + "-launch-1");
  }
};

// Costs that a benchmark has measured on the node are stored under this fingerprint.
inline BatchAnswer benchmarked(const std::string& node, const std::string& fingerprint) {
  BatchAnswer batch;
  batch.node = node;
  batch.fingerprint = fingerprint;
  batch.has_active = true;
  return batch;
}

}  // namespace trimtab::coordinator
