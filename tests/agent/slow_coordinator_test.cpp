// A real link to a coordinator that hardly reads and does not answer: costs wait on the disk and not in memory.

#include <catch2/catch.hpp>
#include <memory>
#include <set>

#include "../resident_memory.hpp"
#include "agent_database.hpp"
#include "costs/cost_store.hpp"
#include "net/link.hpp"
#include "net/server.hpp"
#include "run_loop.hpp"
#include "temporary_directory.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

const std::string kFingerprint = to_json(Fingerprint{{{"kind", "cpu"}}, {}, {}, {}});

// About 100 KB when it is encoded.
std::vector<Cost> batch(int number) {
  std::vector<Cost> costs(200);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    costs[i].key.subject = "operator " + std::to_string(i) + std::string(300, 'x');
    costs[i].statistics.add(number);
  }
  return costs;
}

}  // namespace

TEST_CASE("a slow coordinator makes an agent spool to disk and not grow, and gets everything in the end") {
  constexpr int kBatches = 300;
  constexpr int kWarm = 100;  // SQLite has filled its caches by then
  const TemporaryDirectory directory;
  net::EventLoop loop;
  bool answers = false;
  std::set<std::uint64_t> heard;
  std::unique_ptr<net::Server> server;
  net::ServerHandlers handlers;
  handlers.message = [&](net::PeerId peer, std::string_view frame) {
    wire::FromAgent message;
    REQUIRE(message.ParseFromArray(frame.data(), static_cast<int>(frame.size())));
    heard.insert(message.cost_batch().batch());
    wire::ToAgent answer;
    answer.mutable_batch_ack()->set_batch(message.cost_batch().batch());
    if (answers) server->send(peer, answer.SerializeAsString());
  };
  net::ServerOptions options;
  options.max_rate.frames_per_second = 1;
  server = net::Server::start(loop, options, handlers).value();

  Random random(1);
  auto state = open_agent_database(directory / "agent.db", random).value();
  std::unique_ptr<CostStore> store;
  const auto connect = [&] {
    net::LinkOptions link_options;
    link_options.port = server->port();
    link_options.max_queued_bytes = 1 << 20;
    return std::make_unique<net::Link>(
        loop, link_options,
        net::LinkHandlers{[&] { store->link_opened(); },
                          [&](std::string_view frame) {
                            wire::ToAgent message;
                            REQUIRE(message.ParseFromArray(frame.data(), static_cast<int>(frame.size())));
                            store->acknowledged(message.batch_ack().batch());
                          },
                          {}},
        1);
  };
  auto link = connect();
  store = std::make_unique<CostStore>(
      CostStore::open(state.database, directory / "costs.db", state.instance, Bytes{256} << 20,
                      [&](const wire::FromAgent& message) { return link->send(message.SerializeAsString()); })
          .value());
  link->start();
  REQUIRE(run_until(loop, [&] { return link->open(); }));

  for (int i = 0; i < kWarm; ++i) REQUIRE(store->store({{"j", kFingerprint}, {}}, batch(i)));
  const Bytes before = test::resident_bytes();
  for (int i = kWarm; i < kBatches; ++i) {
    REQUIRE(store->store({{"j", kFingerprint}, {}}, batch(i)));
    REQUIRE(link->queued_bytes() <= std::size_t{1} << 20);
  }
  CHECK(store->spool().bytes() > Bytes{20} << 20);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  WARN("memory is not measured: a sanitizer keeps freed memory");
  (void)before;
#else
  CHECK(test::resident_bytes() - before < Bytes{4} << 20);
#endif
  CHECK(heard.size() <= CostStore::kMaxInFlight);

  // Another coordinator takes its place, which is quick.
  answers = true;
  link->stop();
  options.max_rate.frames_per_second = 0;
  server = net::Server::start(loop, options, handlers).value();
  link = connect();
  link->start();
  REQUIRE(run_until(loop, [&] { return store->spool().bytes() == 0; }));
  CHECK(heard.size() == kBatches);
}
