#include "fake_coordinator.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>

#include "processes/child_process.hpp"
#include "processes/process_identity.hpp"
#include "run_loop.hpp"

namespace trimtab::agent {

namespace {

constexpr const char* kRequests =
    R"({"schema":"trimtab.benchmark_requests/1","items":[{"kind":"operator","cost_key":"a"},)"
    R"({"kind":"operator","cost_key":"b"},{"kind":"process"}]})";

}  // namespace

FakeCoordinator::FakeCoordinator() {
  auto started = net::Server::start(loop_, {},
                                    {{},
                                     [this](net::PeerId peer) { peer_ = peer; },
                                     [this](net::PeerId peer, std::string_view frame) { received(peer, frame); },
                                     [this](net::PeerId peer, const std::string&) {
                                       if (peer_ == peer) peer_.reset();
                                     }});
  REQUIRE(started.ok());
  server_ = std::move(started).value();
}

FakeCoordinator::~FakeCoordinator() {
  if (agent_ > 0) {
    ::kill(agent_, SIGKILL);
    ::waitpid(agent_, nullptr, 0);
  }
  for (const auto& message : messages) {
    for (const auto& rank : message.hello().running()) ::kill(static_cast<pid_t>(-rank.pid()), SIGKILL);
    if (message.rank_event().has_connected()) {
      ::kill(static_cast<pid_t>(-message.rank_event().connected().pid()), SIGKILL);
    }
  }
}

void FakeCoordinator::start_agent(const std::map<std::string, std::string>& changes) {
  ProcessRequest request;
  std::map<std::string, std::string> options{{"--coordinator", "127.0.0.1:" + std::to_string(server_->port())},
                                             {"--state", directory / "state"},
                                             {"--socket", directory / "agent.sock"},
                                             {"--node", "n0"},
                                             {"--devices", "2"},
                                             {"--memory", "1GiB"},
                                             {"--metrics-port", "0"},
                                             {"--kill-grace", "2s"}};
  for (const auto& [name, value] : changes) options[name] = value;
  request.arguments = {program.empty() ? AGENT_PROGRAM : program};
  for (const auto& [name, value] : options) {
    request.arguments.push_back(name);
    if (!value.empty()) request.arguments.push_back(value);
  }
  request.environment = own_environment();
  if (!changes.contains("--tenant")) request.environment["TRIMTAB_RUN_AS_ROOT"] = "true";  // where root runs the tests
  request.working_directory = directory.path();
  auto held = HeldProcess::fork(request);
  REQUIRE(held.ok());
  REQUIRE(held->release().ok());
  agent_ = held->pid();
}

void FakeCoordinator::kill_agent(int signal) {
  ::kill(agent_, signal);
}

int FakeCoordinator::wait_for_agent() {
  int status = 0;
  wait("the agent's end", [&] { return ::waitpid(agent_, &status, WNOHANG) == agent_; });
  agent_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void FakeCoordinator::wait(const std::string& what, const std::function<bool()>& done) {
  INFO("waiting for " << what);
  REQUIRE(run_until(loop_, done));
}

const wire::FromAgent& FakeCoordinator::wait_for(const std::string& what,
                                                 const std::function<bool(const wire::FromAgent&)>& wanted) {
  wait(what, [&] { return std::ranges::any_of(messages, wanted); });
  return *std::ranges::find_if(messages, wanted);
}

const wire::CommandDone& FakeCoordinator::wait_for_done(std::uint64_t id) {
  return wait_for("the reply to command " + std::to_string(id),
                  [id](const wire::FromAgent& message) {
                    return message.has_command_done() && message.command_done().id() == id;
                  })
      .command_done();
}

void FakeCoordinator::wait_for_hello(std::size_t times) {
  wait("a hello", [&] { return hellos_ >= times; });
}

void FakeCoordinator::received(net::PeerId peer, std::string_view frame) {
  wire::FromAgent message;
  REQUIRE(message.ParseFromArray(frame.data(), static_cast<int>(frame.size())));
  if (away_) return server_->close(peer);
  wire::ToAgent answer;
  if (message.has_hello()) {
    ++hellos_;
    answer.mutable_welcome()->set_protocol_version(protocol_version);
    answer.mutable_welcome()->set_heartbeat_ms(100);
    answer.mutable_welcome()->set_coordinator("test");
  } else if (message.has_cost_batch() && acknowledge_batches) {
    answer.mutable_batch_ack()->set_batch(message.cost_batch().batch());
  }
  if (answer.body_case() != wire::ToAgent::BODY_NOT_SET) server_->send(peer, answer.SerializeAsString());
  messages.push_back(std::move(message));
}

void FakeCoordinator::leave() {
  away_ = true;
  if (peer_) server_->close(*peer_);
}

void FakeCoordinator::send(const wire::ToAgent& message) {
  REQUIRE(peer_);
  REQUIRE(server_->send(*peer_, message.SerializeAsString()));
}

void FakeCoordinator::send_bytes(std::string frame) {
  REQUIRE(peer_);
  REQUIRE(server_->send(*peer_, std::move(frame)));
}

void FakeCoordinator::describe(std::uint64_t id, const Job& job) {
  wire::ToAgent message;
  message.mutable_command()->set_id(id);
  message.mutable_command()->mutable_describe()->set_job_json(to_json(job));
  send(message);
}

void FakeCoordinator::benchmark(std::uint64_t id, const Job& job, const std::vector<std::uint32_t>& ranks,
                                double deadline_s) {
  wire::ToAgent message;
  message.mutable_command()->set_id(id);
  auto& benchmark = *message.mutable_command()->mutable_benchmark();
  benchmark.set_job_json(to_json(job));
  benchmark.set_requests_json(kRequests);
  for (const auto rank : ranks) benchmark.add_ranks(rank);
  benchmark.set_rendezvous("benchmark-" + std::to_string(id));
  benchmark.set_deadline_s(deadline_s);
  send(message);
}

void FakeCoordinator::launch(std::uint64_t id, const Job& job, const std::vector<std::uint32_t>& ranks,
                             std::uint64_t number) {
  wire::ToAgent message;
  message.mutable_command()->set_id(id);
  message.mutable_command()->set_tenant(tenant);
  auto& launch = *message.mutable_command()->mutable_launch();
  launch.set_job_json(to_json(job));
  launch.set_plan_json("{}");
  for (const auto rank : ranks) launch.add_ranks(rank);
  launch.set_rendezvous("launch-" + std::to_string(number));
  launch.set_launch(number);
  launch.set_epoch(3);
  send(message);
}

void FakeCoordinator::kill(std::uint64_t id, const std::string& job, std::uint64_t launch) {
  wire::ToAgent message;
  message.mutable_command()->set_id(id);
  message.mutable_command()->mutable_kill()->set_job(job);
  message.mutable_command()->mutable_kill()->set_launch(launch);
  send(message);
}

Job FakeCoordinator::job() const {
  Job job;
  job.name = "fake";
  job.world_size = 2;
  job.steps = 100000;
  job.working_directory = directory.path();
  job.environment = {{"OPENBLAS_NUM_THREADS", "1"}};
  const std::string trace = directory / "trace";
  job.describe = {"python3", RANK_PROGRAM, "describe", "--trace", trace};
  job.benchmark = {"python3",    RANK_PROGRAM, "benchmark", "--rank", "{rank}",
                   "--requests", "{requests}", "--trace",   trace};
  job.train = {"python3", RANK_PROGRAM, "train", "--rank", "{rank}", "--steps", "{steps}", "--trace", trace};
  return job;
}

std::size_t FakeCoordinator::count(const std::function<bool(const wire::FromAgent&)>& wanted) const {
  return static_cast<std::size_t>(std::ranges::count_if(messages, wanted));
}

const wire::Hello& FakeCoordinator::last_hello() const {
  const auto found =
      std::find_if(messages.rbegin(), messages.rend(), [](const auto& message) { return message.has_hello(); });
  REQUIRE(found != messages.rend());
  return found->hello();
}

bool FakeCoordinator::is_alive(pid_t pid) {
  const auto stat = process_stat(pid);
  return stat && !stat->ended();
}

std::function<bool(const wire::FromAgent&)> rank_event(wire::RankEvent::BodyCase kind, std::uint32_t rank) {
  return [kind, rank](const wire::FromAgent& message) {
    return message.has_rank_event() && message.rank_event().body_case() == kind && message.rank_event().rank() == rank;
  };
}

}  // namespace trimtab::agent
