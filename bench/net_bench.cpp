// What the daemons' edges cost: a frame to the coordinator and back, a stream of frames, an HTTP request.

#include <benchmark/benchmark.h>

#include <string>
#include <thread>

#include "net/http_client.hpp"
#include "net/link.hpp"
#include "net/server.hpp"

namespace {

using namespace trimtab::net;

struct EchoPair {
  EventLoop loop;
  std::unique_ptr<Server> server;
  std::unique_ptr<Link> link;
  std::int64_t received = 0;
  std::int64_t wanted = 0;

  EchoPair() {
    server = Server::start(
                 loop, {},
                 {{}, {}, [this](PeerId peer, std::string_view frame) { server->send(peer, std::string(frame)); }, {}})
                 .value();
    LinkOptions options;
    options.port = server->port();
    link = std::make_unique<Link>(loop, options,
                                  LinkHandlers{[this] { loop.stop(); },
                                               [this](std::string_view) {
                                                 if (++received == wanted) loop.stop();
                                               },
                                               {}},
                                  1);
    link->start();
    loop.run();
  }

  void exchange(const std::string& frame, std::int64_t count) {
    wanted = received + count;
    for (std::int64_t i = 0; i < count; ++i) link->send(frame);
    loop.run();
  }
};

void echo_one_frame(benchmark::State& state) {
  EchoPair pair;
  const std::string frame(static_cast<std::size_t>(state.range(0)), 'x');
  for (auto _ : state) pair.exchange(frame, 1);
  state.SetBytesProcessed(state.iterations() * state.range(0) * 2);
}
BENCHMARK(echo_one_frame)->Arg(100)->Arg(1 << 20);

void echo_a_hundred_frames(benchmark::State& state) {
  EchoPair pair;
  const std::string frame(static_cast<std::size_t>(state.range(0)), 'x');
  for (auto _ : state) pair.exchange(frame, 100);
  state.SetItemsProcessed(state.iterations() * 100);
}
BENCHMARK(echo_a_hundred_frames)->Arg(100);

void http_get(benchmark::State& state) {
  EventLoop loop;
  const auto server = Server::start(loop, {}, {[](const HttpRequest&) { return HttpResponse{}; }, {}, {}, {}}).value();
  std::thread thread([&] { loop.run(); });
  for (auto _ : state) {
    benchmark::DoNotOptimize(http_request({"127.0.0.1", server->port()}, "GET", "/", "", std::chrono::seconds(5)).ok());
  }
  loop.post([&] { loop.stop(); });
  thread.join();
}
BENCHMARK(http_get)->UseRealTime();

}  // namespace
