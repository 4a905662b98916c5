#include "coordinator/daemon.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "agents.hpp"
#include "api.hpp"
#include "job_table.hpp"
#include "net/server.hpp"
#include "services.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

constexpr Nanoseconds kTick = std::chrono::milliseconds(200);

std::string default_state_directory() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0') {
    return std::string(state) + "/trimtab";
  }
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "/tmp") + "/.local/state/trimtab";
}

Result<std::string> make_state_directory(const Settings& settings) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path directory =
      fs::absolute(settings.state_directory.empty() ? default_state_directory() : settings.state_directory, error);
  fs::create_directories(directory / "rendezvous", error);
  if (error) {
    return unavailable("the state directory " + directory.string() + " cannot be made: " + error.message() +
                       ". Name another with --state");
  }
  return directory.string();
}

// Written aside and renamed, so that who waits for the file never reads half a number.
Status write_port_file(const std::string& path, std::uint16_t port) {
  if (path.empty()) return {};
  const std::string aside = path + ".new";
  std::ofstream out(aside);
  out << port << '\n';
  out.close();
  std::error_code error;
  std::filesystem::rename(aside, path, error);
  if (!out || error) return unavailable("the port file " + path + " cannot be written");
  return {};
}

}  // namespace

struct Daemon::Implementation {
  Implementation(net::EventLoop& event_loop, const Clock& time, StateStore state, CostDatabase database,
                 const Settings& settings, const std::string& directory)
      : loop(event_loop),
        clock(time),
        store(std::move(state)),
        costs(std::move(database)),
        members(time),
        worker(event_loop, time),
        services{time,
                 store,
                 costs,
                 worker,
                 members,
                 {settings.search_time, settings.search_evaluations},
                 directory + "/rendezvous",
                 directory + "/nccl-tables",
                 [this](const std::string& node, const wire::ToAgent& message) { return agents.send(node, message); },
                 {}},
        jobs(services),
        agents(
            services, jobs,
            {[this](std::uint64_t peer, std::string frame) { return server && server->send(peer, std::move(frame)); },
             [this](std::uint64_t peer) {
               if (server) server->close(peer);
             }}),
        api(services, jobs) {}

  Status listen(const Settings& settings) {
    net::ServerOptions options;
    options.address = settings.address;
    options.port = settings.port;
    net::ServerHandlers handlers;
    handlers.http = [this](const net::HttpRequest& request) { return api.handle(request); };
    handlers.opened = [](net::PeerId) {};
    handlers.message = [this](net::PeerId peer, std::string_view frame) { agents.message(peer, frame); };
    handlers.closed = [this](net::PeerId peer, const std::string& reason) { agents.closed(peer, reason); };
    TRIMTAB_TRY(server, net::Server::start(loop, options, std::move(handlers)));
    return {};
  }

  void tick() {
    const Nanoseconds now = clock.monotonic();
    if (last_tick.count() > 0) {
      Counters& counters = services.counters;
      counters.loop_lag_seconds = std::max(0.0, std::chrono::duration<double>(now - last_tick - kTick).count());
      counters.loop_lag_max_seconds = std::max(counters.loop_lag_max_seconds, counters.loop_lag_seconds);
    }
    last_tick = now;
    agents.tick();
    jobs.tick();
  }

  net::EventLoop& loop;
  const Clock& clock;
  StateStore store;
  CostDatabase costs;
  Membership members;
  SearchWorker worker;
  Services services;
  JobTable jobs;
  Agents agents;
  Api api;
  std::unique_ptr<net::Server> server;
  net::EventLoop::Timer timer;
  Nanoseconds last_tick{0};
};

Result<std::unique_ptr<Daemon>> Daemon::start(net::EventLoop& loop, const Clock& clock, const Settings& settings) {
  TRIMTAB_TRY(const std::string directory, make_state_directory(settings));
  TRIMTAB_TRY(StateStore store, StateStore::open(directory + "/coordinator.db"));
  TRIMTAB_TRY(CostDatabase costs, CostDatabase::open(directory + "/costs.db", OpenMode::kCreate));
  auto inside = std::make_unique<Implementation>(loop, clock, std::move(store), std::move(costs), settings, directory);
  TRIMTAB_TRY_STATUS(inside->listen(settings));
  TRIMTAB_TRY_STATUS(inside->jobs.restore());
  TRIMTAB_TRY_STATUS(write_port_file(settings.port_file, inside->server->port()));
  Implementation* raw = inside.get();
  inside->timer = loop.every(kTick, [raw] { raw->tick(); });
  spdlog::info("trimtab-coordinator {} listens on {}:{}, state in {}", TRIMTAB_RELEASE, settings.address,
               inside->server->port(), directory);
  return std::unique_ptr<Daemon>(new Daemon(std::move(inside)));
}

Daemon::Daemon(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}

Daemon::~Daemon() {
  stop();
}

std::uint16_t Daemon::port() const {
  return implementation_->server->port();
}

void Daemon::stop() {
  implementation_->timer.cancel();
  implementation_->agents.stop();
  implementation_->server->stop();
}

}  // namespace trimtab::coordinator
