#include "coordinator/daemon.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "accounts.hpp"
#include "agents/agents.hpp"
#include "api/answer_worker.hpp"
#include "api/api.hpp"
#include "disk_reserve.hpp"
#include "jobs/retention.hpp"
#include "jobs/search_worker.hpp"
#include "net/certificates.hpp"
#include "net/credentials.hpp"
#include "schema/state_directory.hpp"
#include "schema/wire_log.hpp"
#include "services.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

constexpr Nanoseconds kTick = std::chrono::milliseconds(200);
// Costs wait so long for those of other agents, to be committed together.
constexpr Nanoseconds kCommitDelay = std::chrono::milliseconds(5);
// A database kept the loop waiting: what nodes have sent since is still unread.
constexpr Nanoseconds kStandstill = std::chrono::seconds(2);
constexpr Nanoseconds kReloadPeriod = std::chrono::seconds(5);
// How long an agent may take for its hello.
constexpr Nanoseconds kHelloTime = std::chrono::seconds(10);

Result<std::string> default_state_directory() {
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  return user_state_directory(set("XDG_STATE_HOME"), set("HOME"));
}

const std::string& or_else(const std::string& setting, const std::string& fallback) {
  return setting.empty() ? fallback : setting;
}

void say_backup(const std::string& database, const std::string& backup) {
  if (!backup.empty()) spdlog::info("{} was upgraded to this release; as it was before it is in {}", database, backup);
}

Result<std::string> make_state_directory(const Settings& settings) {
  namespace fs = std::filesystem;
  std::error_code error;
  TRIMTAB_TRY(const std::string chosen, settings.state_directory.empty()
                                            ? default_state_directory()
                                            : Result<std::string>(settings.state_directory));
  TRIMTAB_TRY_STATUS(check_state_path(chosen));
  const fs::path directory = fs::absolute(chosen, error);
  if (const Status made = make_private_directories(directory.string()); !made.ok()) {
    return unavailable("the state directory: " + made.error().message + ". Name another with --state");
  }
  TRIMTAB_TRY_STATUS(check_state_directory(directory.string()));
  return directory.string();
}

Result<std::shared_ptr<net::Credentials>> load_credentials(const Settings& settings, const Clock& clock) {
  if (settings.tls.empty()) return std::shared_ptr<net::Credentials>();
  TRIMTAB_TRY(auto credentials, net::Credentials::load(settings.tls, clock.wall()));
  if (credentials->own().kind != net::CertificateKind::kCoordinator) {
    return bad_input(settings.tls.certificate + " is not a coordinator's certificate: make one with " +
                     net::issue_command({"NAME", net::CertificateKind::kCoordinator}));
  }
  return credentials;
}

Result<std::unique_ptr<net::TokenFile>> load_tokens(const Settings& settings) {
  if (settings.tokens.empty()) return std::unique_ptr<net::TokenFile>();
  return net::TokenFile::load(settings.tokens);
}

Result<std::unique_ptr<net::DenyFile>> load_denied(const Settings& settings, const std::string& directory) {
  if (!settings.deny_list.empty() && ::access(settings.deny_list.c_str(), F_OK) != 0) {
    return bad_input("deny_list names " + settings.deny_list + ", which is not there: make an empty one (touch " +
                     settings.deny_list + "), or correct the name");
  }
  return net::DenyFile::load(or_else(settings.deny_list, directory + "/denied"));
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

struct Running final : Daemon {
  Running(net::EventLoop& event_loop, const Clock& time, StateStore state, CostDatabase database,
          const Settings& settings, const std::string& directory, std::shared_ptr<net::Credentials> certificates,
          std::unique_ptr<net::TokenFile> tokens, std::unique_ptr<net::DenyFile> denied)
      : loop(event_loop),
        clock(time),
        tls(std::move(certificates)),
        access(tls != nullptr, std::move(tokens), std::move(denied)),
        store(std::move(state)),
        costs(std::move(database)),
        members(time, settings.node_timeout, kMostNodes, settings.max_nodes_of_token),
        worker(event_loop, time),
        services{time,
                 store,
                 costs,
                 worker,
                 members,
                 settings,
                 directory + "/nccl-tables",
                 [this](const std::string& node, const wire::ToAgent& message) { return agents.send(node, message); },
                 {}},
        jobs(services.for_jobs),
        agents(
            services, jobs,
            {[this](std::uint64_t peer, std::string frame) {
               loop.assert_on_loop();
               return server && server->send(peer, std::move(frame));
             },
             [this](std::uint64_t peer) {
               if (server) server->close(peer);
             },
             [this](std::uint64_t peer, const std::string& node, const std::string& tenant) {
               return check_node(peer, node, tenant);
             },
             [this] { commit_timer = loop.after(kCommitDelay, [this] { agents.commit(); }); },
             [this](std::uint64_t peer) { return server ? server->received_bytes(peer) : 0; },
             [this](std::uint64_t peer) {
               if (server) server->introduced(peer);
             },
             [this](std::uint64_t peer) { return server ? server->addresses(peer) : net::PeerAddresses(); },
             [this](std::uint64_t peer) { return server ? access.agent_owner(server->token(peer)) : std::string(); }}),
        api(services, jobs, access, settings.max_request_rate),
        retention(services.for_jobs, jobs),
        answers(event_loop) {
    services.tls = tls;
    services.storage.add("state", [this] { return store.look_after(); });
    services.storage.add("costs", [this] { return costs.look_after(); });
    services.storage.tick();
    services.answers = &answers;
    services.has_room = [this](const std::string& node, std::size_t bytes) {
      const Member* member = members.by_node(node);
      return member == nullptr || member->peer == 0 || !server || server->has_room(member->peer, bytes);
    };
    services.taken = [this] { return server ? server->taken() : net::Server::Taken(); };
    services.own_use = std::make_unique<OwnUseWatch>(
        settings.budgets, time, [this] { return own_use(); },
        [](const std::string& line) { spdlog::warn("{}", line); });
  }

  ~Running() override {
    if (is_up) stop();
  }

  // Before the first hello.
  Status know_names() {
    TRIMTAB_TRY(auto stored, store.node_names());
    members.names().know(
        std::move(stored),
        [this](const std::string& owner, const std::string& node) { return access.may_have(owner, node); },
        [this](const std::string& owner, const std::vector<std::string>& nodes) {
          return store.save_node_names(owner, nodes);
        });
    return access.names_are_of_tokens() ? members.names().release() : Status();
  }

  Status listen() {
    const Settings& settings = services.settings;
    net::ServerOptions options;
    options.address = settings.address;
    options.port = settings.port;
    options.tls = tls;
    options.max_body_bytes = options.max_frame_bytes = static_cast<std::size_t>(settings.max_frame);
    options.max_queued_bytes = static_cast<std::size_t>(settings.peer_queue);
    options.max_rate = {settings.max_message_rate,
                        static_cast<std::uint64_t>(std::max(settings.max_byte_rate, settings.max_frame))};
    options.max_connections = settings.max_connections;
    const Shares shares = shares_of(settings.accounted_memory());
    options.bodies = shares.bodies;
    options.answers = shares.answers;
    options.half_frames = shares.half_frames;
    options.unknown_half_frames = shares.unknown_half_frames;
    options.all_queued_bytes = shares.queues;
    options.introduction_timeout = kHelloTime;
    options.idle_timeout = settings.request_time;
    net::ServerHandlers handlers;
    handlers.admit = [this](const net::HttpRequest& head) { return api.admit(head); };
    handlers.refused = [this](const net::Refusal& refusal) {
      services.refusals.refused(std::string(to_string(refusal.kind)), refusal.address, refusal.reason);
    };
    handlers.http = [this](const net::HttpRequest& request) { return api.handle(request); };
    handlers.opened = [](net::PeerId) {};
    handlers.delayed = [this](net::PeerId) { ++services.counters.frames_delayed; };
    handlers.wait = [this](net::PeerId peer) { return agents.wait_of(peer); };
    handlers.message = [this](net::PeerId peer, std::string_view frame) { agents.message(peer, frame); };
    handlers.closed = [this](net::PeerId peer, const std::string& reason) { agents.closed(peer, reason); };
    TRIMTAB_TRY(server, net::Server::start(loop, options, std::move(handlers)));
    return {};
  }

  OwnUse own_use() const {
    OwnUse use = measure_own_use({store.name(), costs.name()});
    const auto bytes = costs.used_bytes();
    if (!bytes.ok()) spdlog::error("cannot tell how much the costs are: {}", bytes.error().message);
    if (bytes.ok() && *bytes) use.cost_bytes = static_cast<double>(**bytes);
    return use;
  }

  Status export_metrics(const net::OtlpSettings& otlp) {
    if (!otlp.endpoint) return {};
    net::OtlpHandlers handlers;
    handlers.page = [this] { return metrics_text(services, jobs); };
    handlers.changed = [](bool well, const std::string& what) {
      spdlog::log(well ? spdlog::level::info : spdlog::level::warn, "{}", what);
    };
    auto started = net::OtlpExporter::start(
        loop, clock, otlp, {"trimtab-coordinator", store.identity(), TRIMTAB_RELEASE, /*host=*/"", /*node=*/""},
        std::move(handlers), std::hash<std::string>()(store.identity()));
    if (!started.ok()) return wrap("posting metrics (otlp_endpoint)", started.error());
    services.exporter = std::move(started).value();
    return {};
  }

  void reload() override { reload(true); }
  void reload(bool in_any_case) {
    const auto tell = [](const char* what, const Result<bool>& fresh) {
      if (!fresh.ok()) return spdlog::error("the {} stay as they were: {}", what, fresh.error().message);
      if (*fresh) spdlog::info("the {} have been read again", what);
    };
    if (tls) tell("certificates", tls->reload(clock.wall(), in_any_case));
    tell_certificate_ends();
    const auto tokens = access.reload(in_any_case);
    tell("tokens", tokens);
    const auto denied = access.reload_denied(in_any_case);
    tell("names on the deny list", denied);
    if (denied.ok() && *denied && !access.freed().empty())
      spdlog::warn("no longer on the deny list, and let in again: {}", access.freed());
    reload_site(in_any_case);
    const auto news = [](const Result<bool>& fresh) { return fresh.ok() && *fresh; };
    judge_links(news(tokens) || news(denied));
    if (!news(tokens)) return;
    agents.check_nodes();
    if (!access.names_are_of_tokens()) return;
    if (const Status released = members.names().release(); !released.ok())
      spdlog::error("{}", released.error().message);
  }

  // Jobs that run are judged by it at their next tick.
  void reload_site(bool in_any_case) {
    Settings& settings = services.settings;
    if (settings.site_policy.empty()) return;
    auto site = load_site_policy(settings.site_policy, /*may_be_empty=*/false);
    const std::string problem = site.ok() ? "" : site.error().message;
    if (const bool is_new = std::exchange(site_problem, problem) != problem; !site.ok()) {
      if (is_new || in_any_case) spdlog::error("the site's policy stays as it was: {}", problem);
      return;
    }
    const std::string before = describe(settings.site);
    settings.site = std::move(site).value();
    if (const std::string now = describe(settings.site); now != before) spdlog::warn("the site's policy: {}", now);
  }

  // What let it in may have gone since.
  [[nodiscard]] Result<std::string> check_node(net::PeerId peer, const std::string& node, const std::string& tenant) {
    const Access::AgentProof proof{server->identity(peer), server->token(peer)};
    if (const std::string objection = server->objection(peer); !objection.empty()) return no(objection);
    if (const auto why = access.revoked(proof, node)) return no(*why);
    return access.check_node(proof, node, tenant);
  }

  // Every agent's link that is open, by what it has shown: other authorities may be trusted now, other tokens known.
  // HTTP requests are judged one by one.
  void judge_links(bool other_names) {
    for (const net::PeerId peer : server->peers()) {
      const std::string objection = server->objection(peer);
      const Member* member = members.by_peer(peer);
      const auto why = other_names ? access.revoked({server->identity(peer), server->token(peer)},
                                                    member == nullptr ? "" : member->node)
                                   : std::nullopt;
      if (!objection.empty() || why) agents.revoke(peer, objection.empty() ? *why : objection);
    }
  }

  void tell_certificate_ends() {
    if (!tls) return;
    if (const auto line = end_notice.next(*tls, clock.wall())) spdlog::warn("{}", *line);
  }

  void tick() {
    loop.assert_on_loop();
    const Nanoseconds now = clock.monotonic();
    if (last_tick.count() > 0) {
      if (now - last_tick > kStandstill) members.stood_still(now - last_tick);
      Counters& counters = services.counters;
      counters.loop_lag_seconds = std::max(0.0, std::chrono::duration<double>(now - last_tick - kTick).count());
      counters.loop_lag_max_seconds = std::max(counters.loop_lag_max_seconds, counters.loop_lag_seconds);
    }
    last_tick = now;
    services.loop_time.limit(access.has_several_tenants());
    services.own_use->tick();
    services.storage.tick();
    agents.tick();
    jobs.tick();
    retention.tick();
  }

  [[nodiscard]] std::uint16_t port() const override { return server->port(); }

  [[nodiscard]] std::string status() const override {
    const auto connected =
        std::ranges::count_if(members.members(), [](const auto& one) { return one.second.peer != 0; });
    const auto active = std::ranges::count_if(jobs.jobs(), [](const auto& one) { return one.second->active(); });
    return std::to_string(connected) + " of " + std::to_string(members.members().size()) + " nodes connected, " +
           std::to_string(active) + " jobs active";
  }

  void stop() override {
    reload_timer.cancel();
    commit_timer.cancel();
    timer.cancel();
    services.exporter.reset();
    agents.stop();
    server->stop();
  }

  net::EventLoop& loop;
  const Clock& clock;
  std::shared_ptr<net::Credentials> tls;
  net::EndNotice end_notice;  // of its certificates
  Access access;
  StateStore store;
  CostDatabase costs;
  Membership members;
  SearchWorker worker;
  Services services;
  JobTable jobs;
  Agents agents;
  Api api;
  Retention retention;
  AnswerWorker answers;  // asks for what is above
  std::unique_ptr<net::Server> server;
  net::EventLoop::Timer timer;
  net::EventLoop::Timer reload_timer;
  net::EventLoop::Timer commit_timer;
  std::string site_problem;  // why the file of the site's policy could not be used last
  Nanoseconds last_tick{0};
  bool is_up = false;  // as a whole
};

}  // namespace

void say_of_storage(bool well, const std::string& line) {
  spdlog::log(well ? spdlog::level::info : spdlog::level::err, "{}", line);
}

Result<std::unique_ptr<Daemon>> Daemon::start(net::EventLoop& loop, const Clock& clock, const Settings& given) {
  Settings settings = given;
  hand_over_protobuf_log([](const std::string& line) { spdlog::debug("{}", line); });
  TRIMTAB_TRY_STATUS(check_settings(settings));
  TRIMTAB_TRY(settings.site, load_site_policy(settings.site_policy));
  TRIMTAB_TRY(auto credentials, load_credentials(settings, clock));
  TRIMTAB_TRY(auto tokens, load_tokens(settings));
  TRIMTAB_TRY(const std::string directory, make_state_directory(settings));
  TRIMTAB_TRY(auto denied, load_denied(settings, directory));
  release_reserve(directory);
  TRIMTAB_TRY(StateStore store, StateStore::open(or_else(settings.state_database, directory + "/coordinator.db")));
  TRIMTAB_TRY(CostDatabase costs,
              CostDatabase::open(or_else(settings.cost_database, directory + "/costs.db"), OpenMode::kCreate));
  if (const Status held = hold_reserve(directory); !held.ok()) spdlog::warn("{}", held.error().message);
  say_backup(store.name(), store.backup());
  say_backup(costs.name(), costs.backup());
  auto inside = std::make_unique<Running>(loop, clock, std::move(store), std::move(costs), settings, directory,
                                          std::move(credentials), std::move(tokens), std::move(denied));
  inside->services.own_use->tick();  // before the first costs come
  TRIMTAB_TRY_STATUS(inside->know_names());
  TRIMTAB_TRY_STATUS(inside->listen());
  TRIMTAB_TRY_STATUS(inside->jobs.restore());
  TRIMTAB_TRY_STATUS(inside->export_metrics(settings.otlp));
  TRIMTAB_TRY_STATUS(write_port_file(settings.port_file, inside->server->port()));
  Running* raw = inside.get();
  inside->timer = loop.every(kTick, [raw] { raw->tick(); });
  inside->tell_certificate_ends();
  inside->reload_timer = loop.every(kReloadPeriod, [raw] { raw->reload(false); });
  spdlog::info("trimtab-coordinator {} listens on {}:{}, state in {}", TRIMTAB_RELEASE, settings.address,
               inside->server->port(), directory);
  inside->is_up = true;
  return std::unique_ptr<Daemon>(std::move(inside));
}

std::vector<ServerDatabase> inspect_server_databases(const Settings& settings) {
  std::vector<ServerDatabase> databases;
  if (names_server(settings.cost_database)) {
    databases.push_back({"cost_database", inspect_cost_server(settings.cost_database)});
  }
  if (names_server(settings.state_database)) {
    databases.push_back({"state_database", inspect_server(settings.state_database, state_migrations(), true)});
  }
  return databases;
}

}  // namespace trimtab::coordinator
