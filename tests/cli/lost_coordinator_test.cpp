// Coordinators that never answer, or that die while they are asked.

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "program.hpp"
#include "schema/record.hpp"
#include "wire/agent.pb.h"

using nlohmann::json;

namespace {

enum class Then { kDies, kIsSilent };

// Answers one request after the other with these bodies, then dies or accepts without a word.
class FakeCoordinator {
 public:
  FakeCoordinator(std::vector<std::string> bodies, Then then)
      : bodies_(std::move(bodies)), then_(then), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(listener_, reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(listen(listener_, 16) == 0);
    REQUIRE(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    REQUIRE(pipe(stop_) == 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeCoordinator() {
    close(stop_[1]);
    thread_.join();
    close(stop_[0]);
    if (listener_ >= 0) close(listener_);
    for (const int one : held_) close(one);
  }
  FakeCoordinator(const FakeCoordinator&) = delete;
  FakeCoordinator& operator=(const FakeCoordinator&) = delete;
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  void serve() {
    for (const std::string& body : bodies_) {
      const int peer = next();
      if (peer < 0) return;
      answer(peer, body);
    }
    if (then_ == Then::kDies) {
      close(listener_);
      listener_ = -1;
      return;
    }
    for (int peer = next(); peer >= 0; peer = next()) held_.push_back(peer);
  }
  int next() const {
    pollfd waiting[2] = {{listener_, POLLIN, 0}, {stop_[0], POLLIN, 0}};
    if (poll(waiting, 2, -1) <= 0 || waiting[1].revents != 0) return -1;
    return accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  }
  // A request that has come with its head is small enough to have come whole.
  static void answer(int peer, const std::string& body) {
    std::string request;
    char part[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t count = read(peer, part, sizeof part);
      if (count <= 0) break;
      request.append(part, static_cast<std::size_t>(count));
    }
    const std::string reply =
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    (void)!write(peer, reply.data(), reply.size());
    shutdown(peer, SHUT_WR);
    while (read(peer, part, sizeof part) > 0) {
    }
    close(peer);
  }

  std::vector<std::string> bodies_;
  Then then_;
  int listener_;
  int stop_[2] = {-1, -1};
  std::uint16_t port_ = 0;
  std::vector<int> held_;
  std::thread thread_;
};

std::string status() {
  return R"({"release":"x","uptime_s":1,"nodes":[],"jobs":[{"name":"gpt","active":true,"phase":"training"}]})";
}

std::string chunk() {
  trimtab::wire::FromAgent message;
  trimtab::wire::TraceChunk& chunk = *message.mutable_trace_chunk();
  chunk.set_node("n0");
  chunk.add_names("");
  chunk.add_names("step");
  trimtab::wire::TraceRecord& record = *chunk.add_records();
  record.set_kind(trimtab::record::kRange);
  record.set_name(1);
  record.set_duration_ns(1000);
  return message.SerializeAsString();
}

Outcome trace(const FakeCoordinator& coordinator, const std::string& file) {
  return trimtab_program({"trace", "--coordinator", coordinator.address(), "--seconds", "0.1", "-o", file});
}

}  // namespace

TEST_CASE("a coordinator that dies while a trace is taken is said to be lost, and what had come is kept") {
  const Scratch scratch;
  const std::string file = scratch.path("trace.json");
  const FakeCoordinator coordinator({status(), R"({"trace":1})", R"({"state":"running","chunks":1})", chunk()},
                                    Then::kDies);
  const Outcome outcome = trace(coordinator, file);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.err.find("lost the coordinator while the trace was fetched") != std::string::npos);
  CHECK(outcome.err.find(file + " holds the 1 records") != std::string::npos);
  const json document = json::parse(content_of(file));
  CHECK(document["traceEvents"].dump().find("\"step\"") != std::string::npos);
  CHECK(document["otherData"]["remarks"].dump().find("lost, the rest was not fetched") != std::string::npos);
}

TEST_CASE("a coordinator that dies before anything has come leaves no file") {
  const Scratch scratch;
  const FakeCoordinator coordinator({status(), R"({"trace":1})"}, Then::kDies);
  const Outcome outcome = trace(coordinator, scratch.path("trace.json"));
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.err.find("lost the coordinator before anything of the trace had come") != std::string::npos);
  CHECK(access(scratch.path("trace.json").c_str(), F_OK) != 0);
  CHECK(access(scratch.path("trace.json.part").c_str(), F_OK) != 0);
}

TEST_CASE("a coordinator that accepts and never answers is given up, before and during a trace") {
  const Scratch scratch;
  const auto begin = std::chrono::steady_clock::now();
  const FakeCoordinator mute({}, Then::kIsSilent);
  Running first({"trace", "--coordinator", mute.address(), "-o", scratch.path("first.json")});
  const FakeCoordinator later({status(), R"({"trace":1})", R"({"state":"running","chunks":1})"}, Then::kIsSilent);
  Running second({"trace", "--coordinator", later.address(), "-o", scratch.path("second.json")});
  for (Running* one : {&first, &second}) {
    const Outcome outcome = one->wait();
    INFO(outcome.err);
    CHECK(outcome.exit_code == 3);
    CHECK(outcome.err.find("in time. Is that daemon alive") != std::string::npos);
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(25));
}
