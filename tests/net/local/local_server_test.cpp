#include "net/local_server.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <optional>
#include <vector>

#include "../loopback.hpp"
#include "local/local_frames.hpp"
#include "local/socket_file.hpp"

using namespace trimtab;
using namespace trimtab::net;

namespace {

struct Fixture {
  TemporaryDirectory directory;
  std::string path = directory / "agent.sock";
  EventLoop loop;
  std::vector<LocalPeerId> peers;
  pid_t pid = 0;
  std::vector<std::pair<std::string, int>> frames;
  std::vector<std::string> ends;
  std::vector<std::string> refusals;
  std::unique_ptr<LocalServer> server;

  int delays = 0;

  explicit Fixture(std::uint32_t max_frames_per_second = 0, const LocalLimits& limits = {}) {
    auto started = LocalServer::start(loop, path, handlers(), {max_frames_per_second, 0}, limits);
    REQUIRE(started.ok());
    server = std::move(started).value();
  }
  LocalServerHandlers handlers() {
    return {[this](LocalPeerId peer, pid_t peer_pid, uid_t) {
              peers.push_back(peer);
              pid = peer_pid;
            },
            [this](LocalPeerId peer, std::string_view json, int descriptor) {
              frames.emplace_back(json, descriptor);
              server->send(peer, "got " + std::string(json));
            },
            [this](LocalPeerId, const std::string& reason) { ends.push_back(reason); },
            [this](pid_t, uid_t, const std::string& reason) { refusals.push_back(reason); },
            [this](LocalPeerId) { ++delays; }};
  }
};

bool is_open(int descriptor) {
  return ::fcntl(descriptor, F_GETFD) >= 0;
}

int open_descriptors() {
  int count = 0;
  for (int descriptor = 0; descriptor < 256; ++descriptor) count += is_open(descriptor) ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("frames go both ways and the peer's pid is known") {
  Fixture fixture;
  std::string reply;
  while_loop_runs(fixture.loop, [&] {
    const auto client = RawClient::unix_socket(fixture.path);
    client.send(frame_for("{\"a\":1}"));
    reply = client.read_exactly(4 + 11);
  });
  CHECK(reply == frame_for("got {\"a\":1}"));
  CHECK(fixture.pid == ::getpid());
  CHECK(run_until(fixture.loop, [&] { return fixture.ends.size() == 1; }));
}

TEST_CASE("a descriptor comes with the frame that carried it") {
  Fixture fixture;
  const int sent = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  while_loop_runs(fixture.loop, [&] {
    const auto client = RawClient::unix_socket(fixture.path);
    client.send(frame_for("plain"));
    client.send_with_descriptors(frame_for("ring"), {sent});
    client.send(frame_for("after"));
    static_cast<void>(client.read_exactly(3 * 8 + 5 + 4 + 5));
  });
  REQUIRE(fixture.frames.size() == 3);
  CHECK(fixture.frames[0].second == -1);
  REQUIRE(fixture.frames[1].second >= 0);
  CHECK(fixture.frames[2].second == -1);
  struct stat ours {};
  struct stat theirs {};
  REQUIRE(::fstat(sent, &ours) == 0);
  REQUIRE(::fstat(fixture.frames[1].second, &theirs) == 0);
  CHECK(ours.st_rdev == theirs.st_rdev);
  CHECK((::fcntl(fixture.frames[1].second, F_GETFD) & FD_CLOEXEC) != 0);
  ::close(fixture.frames[1].second);
  ::close(sent);
}

TEST_CASE("too many descriptors end the peer and none of them stays open") {
  Fixture fixture;
  const int before = open_descriptors();
  for (const std::size_t count : {2U, 8U}) {
    while_loop_runs(fixture.loop, [&] {
      const auto client = RawClient::unix_socket(fixture.path);
      client.send_with_descriptors(frame_for("ring"), std::vector<int>(count, 0));
      static_cast<void>(client.read_all());
    });
  }
  CHECK(fixture.frames.empty());
  REQUIRE(run_until(fixture.loop, [&] { return fixture.ends.size() == 2; }));
  CHECK(fixture.ends[0].find("one descriptor") != std::string::npos);
  CHECK(open_descriptors() == before);
}

TEST_CASE("a frame beyond a mebibyte ends its sender and nobody else") {
  Fixture fixture;
  std::string reply;
  while_loop_runs(fixture.loop, [&] {
    const auto good = RawClient::unix_socket(fixture.path);
    const auto bad = RawClient::unix_socket(fixture.path);
    bad.send(std::string("\xff\xff\xff\x7f", 4) + std::string(100, 'x'));
    static_cast<void>(bad.read_all());
    good.send(frame_for("x"));
    reply = good.read_exactly(9);
  });
  CHECK(reply == frame_for("got x"));
  REQUIRE_FALSE(fixture.ends.empty());
  CHECK(fixture.ends[0].find("1048576") != std::string::npos);
}

TEST_CASE("a process that ends in the middle of a frame is reported so") {
  Fixture fixture;
  while_loop_runs(fixture.loop, [&] { RawClient::unix_socket(fixture.path).send("\x10"); });
  REQUIRE(run_until(fixture.loop, [&] { return fixture.ends.size() == 1; }));
  CHECK(fixture.ends[0].find("middle of a frame") != std::string::npos);
}

TEST_CASE("a process that does not read is closed when its queue is full") {
  Fixture fixture;
  std::optional<RawClient> client;
  while_loop_runs(fixture.loop, [&] { client.emplace(RawClient::unix_socket(fixture.path)); });
  REQUIRE(run_until(fixture.loop, [&] { return fixture.peers.size() == 1; }));
  const std::string block(1 << 20, 'x');
  int accepted = 0;
  while (fixture.server->send(fixture.peers[0], block)) REQUIRE(++accepted < 100);
  REQUIRE(run_until(fixture.loop, [&] { return fixture.ends.size() == 1; }));
  CHECK(fixture.ends[0].find("does not read") != std::string::npos);
}

TEST_CASE("what is queued for a slow process arrives") {
  Fixture fixture;
  std::optional<RawClient> client;
  while_loop_runs(fixture.loop, [&] { client.emplace(RawClient::unix_socket(fixture.path)); });
  REQUIRE(run_until(fixture.loop, [&] { return fixture.peers.size() == 1; }));
  const std::string block(1 << 20, 'x');
  for (int i = 0; i < 3; ++i) REQUIRE(fixture.server->send(fixture.peers[0], block));
  std::string got;
  while_loop_runs(fixture.loop, [&] { got = client->read_exactly(3 * (block.size() + 4)); });
  CHECK(got.size() == 3 * (block.size() + 4));
}

TEST_CASE("the socket is open to its user and group alone, and gone after stop") {
  Fixture fixture;
  struct stat found {};
  REQUIRE(::stat(fixture.path.c_str(), &found) == 0);
  CHECK((found.st_mode & 0777U) == 0660U);
  fixture.server->stop();
  CHECK(::stat(fixture.path.c_str(), &found) != 0);
}

TEST_CASE("a second listener on the same socket is refused and the first one goes on") {
  Fixture fixture;
  const auto second = LocalServer::start(fixture.loop, fixture.path, {});
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().kind == ErrorKind::kUnavailable);
  CHECK(second.error().message.find("another process listens there") != std::string::npos);
  std::string reply;
  while_loop_runs(fixture.loop, [&] {
    const auto client = RawClient::unix_socket(fixture.path);
    client.send(frame_for("x"));
    reply = client.read_exactly(9);
  });
  CHECK(reply == frame_for("got x"));
}

TEST_CASE("a lock file that is a link is refused, and nothing is made where it leads") {
  const TemporaryDirectory directory;
  const std::string path = directory / "agent.sock";
  const std::string elsewhere = directory / "elsewhere";
  REQUIRE(::symlink(elsewhere.c_str(), (path + ".lock").c_str()) == 0);
  const auto refused = SocketFile::listen(path);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find(path + ".lock must be a file of its own") != std::string::npos);
  struct stat found {};
  CHECK(::lstat(elsewhere.c_str(), &found) != 0);
  CHECK(::lstat(path.c_str(), &found) != 0);
}

TEST_CASE("a socket file that a dead process left is taken over") {
  const TemporaryDirectory directory;
  const std::string path = directory / "agent.sock";
  const pid_t child = ::fork();
  if (child == 0) {
    auto file = SocketFile::listen(path);
    ::_exit(file.ok() ? 0 : 1);  // No destructor: the file stays.
  }
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  struct stat found {};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  CHECK_FALSE(RawClient::unix_socket(path).connected());
  EventLoop loop;
  const auto server = LocalServer::start(loop, path, {});
  REQUIRE(server.ok());
  CHECK(RawClient::unix_socket(path).connected());
}

TEST_CASE("a file that is not a socket is left alone") {
  const TemporaryDirectory directory;
  const std::string path = directory / "agent.sock";
  std::ofstream(path) << "precious";
  EventLoop loop;
  const auto server = LocalServer::start(loop, path, {});
  REQUIRE_FALSE(server.ok());
  CHECK(server.error().message.find("not a socket") != std::string::npos);
  std::string text;
  std::ifstream(path) >> text;
  CHECK(text == "precious");
}

TEST_CASE("a path that is too long or in no directory is refused with a reason") {
  EventLoop loop;
  const auto long_path = LocalServer::start(loop, "/tmp/" + std::string(200, 'x'), {});
  REQUIRE_FALSE(long_path.ok());
  CHECK(long_path.error().message.find("--socket") != std::string::npos);
  const auto nowhere = LocalServer::start(loop, "/nonexistent-directory/agent.sock", {});
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error().message.find("No such file or directory") != std::string::npos);
}

TEST_CASE("only the agent's own user and root are admitted") {
  CHECK(peer_admitted(1000, 1000));
  CHECK(peer_admitted(0, 1000));
  CHECK_FALSE(peer_admitted(1001, 1000));
  CHECK_FALSE(peer_admitted(1000, 0));
}

TEST_CASE("another user's process is refused before anything of what it says is read, and that is told of") {
  if (::geteuid() != 0) return;  // Becoming another user needs root; peer_admitted() is checked for everybody above.
  constexpr uid_t kOther = 65534;
  Fixture fixture;
  std::vector<uid_t> refused;
  auto handlers = fixture.handlers();
  handlers.refused = [&](pid_t, uid_t uid, const std::string&) { refused.push_back(uid); };
  fixture.server.reset();
  auto started = LocalServer::start(fixture.loop, fixture.path, std::move(handlers));
  REQUIRE(started.ok());
  fixture.server = std::move(started).value();
  // The file's mode alone would keep it out: it is opened, so that the credentials are what refuses.
  struct stat status {};
  REQUIRE(::stat(fixture.path.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0660);
  const pid_t child = ::fork();
  if (child == 0) {
    // 1: connected although the mode forbids it; 2: it could not become the other user.
    if (::setgid(kOther) != 0 || ::setuid(kOther) != 0) ::_exit(2);
    ::_exit(RawClient::unix_socket(fixture.path).connected() ? 1 : 0);
  }
  int ended = 0;
  REQUIRE(::waitpid(child, &ended, 0) == child);
  CHECK(WEXITSTATUS(ended) == 0);
  REQUIRE(::chmod(fixture.path.c_str(), 0666) == 0);
  REQUIRE(::chmod((fixture.directory / "").c_str(), 0755) == 0);
  pid_t intruder = -1;
  while_loop_runs(fixture.loop, [&] {
    intruder = ::fork();
    if (intruder == 0) {
      if (::setgid(kOther) != 0 || ::setuid(kOther) != 0) ::_exit(2);
      const auto client = RawClient::unix_socket(fixture.path);
      if (!client.connected()) ::_exit(3);
      client.send(frame_for("{\"type\":\"hello\"}"));
      ::_exit(client.read_all().empty() ? 0 : 1);
    }
    ::waitpid(intruder, &ended, 0);
  });
  CHECK(WEXITSTATUS(ended) == 0);
  CHECK(refused == std::vector<uid_t>{kOther});
  CHECK(fixture.peers.empty());
  CHECK(fixture.frames.empty());
}

TEST_CASE("a process that floods the socket is read at its rate, nothing is lost, and others do not wait") {
  using namespace std::chrono_literals;
  Fixture fixture(1000);
  const auto begin = std::chrono::steady_clock::now();
  // They outlive the loop: it must not see them go.
  const auto flood = RawClient::unix_socket(fixture.path);
  const auto other = RawClient::unix_socket(fixture.path);
  while_loop_runs(fixture.loop, [&] {
    std::string bytes;
    for (int i = 0; i < 1200; ++i) bytes += frame_for("{}");
    flood.send(bytes);
    other.send(frame_for("[]"));
    static_cast<void>(other.read_exactly(4 + 6));
    CHECK(std::chrono::steady_clock::now() - begin < 10s);
    static_cast<void>(flood.read_exactly(1200 * (4 + 6)));
  });
  CHECK(fixture.frames.size() == 1201);
  CHECK(fixture.delays > 0);
  CHECK(std::chrono::steady_clock::now() - begin >= 190ms);
  CHECK(fixture.ends.empty());
}

TEST_CASE("who says no whole frame in time is closed and told of, who has said one may be silent") {
  LocalLimits limits;
  limits.introduction = std::chrono::milliseconds(100);
  Fixture fixture(0, limits);
  const auto introduced = RawClient::unix_socket(fixture.path);
  const auto silent = RawClient::unix_socket(fixture.path);
  const auto halfway = RawClient::unix_socket(fixture.path);
  // Before the loop accepts them, so that it cannot be late.
  introduced.send(frame_for("x"));
  halfway.send(frame_for("hello").substr(0, 8));
  while_loop_runs(fixture.loop, [&] {
    CHECK(introduced.read_exactly(9) == frame_for("got x"));
    CHECK(silent.read_all().empty());
    CHECK(halfway.read_all().empty());
    introduced.send(frame_for("y"));
    CHECK(introduced.read_exactly(9) == frame_for("got y"));
  });
  REQUIRE(fixture.refusals.size() == 2);
  CHECK(fixture.refusals[0].find("whole frame") != std::string::npos);
  CHECK(fixture.ends == fixture.refusals);
}

TEST_CASE("one process has so many connections and no more, another has its own") {
  LocalLimits limits;
  limits.connections_of_process = 2;
  Fixture fixture(0, limits);
  const auto first = RawClient::unix_socket(fixture.path);
  auto second = std::optional(RawClient::unix_socket(fixture.path));
  const auto is_served = [&] {
    const auto client = RawClient::unix_socket(fixture.path);
    return client.send(frame_for("x")) && client.read_exactly(9) == frame_for("got x");
  };
  while_loop_runs(fixture.loop, [&] {
    CHECK_FALSE(is_served());
    const pid_t child = ::fork();
    if (child == 0) ::_exit(is_served() ? 0 : 1);
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  });
  REQUIRE(fixture.refusals.size() == 1);
  CHECK(fixture.refusals[0].find("2 connections") != std::string::npos);
  second.reset();
  REQUIRE(run_until(fixture.loop, [&] { return fixture.ends.size() == 2; }));
  bool served = false;
  while_loop_runs(fixture.loop, [&] { served = is_served(); });
  CHECK(served);
}

TEST_CASE("frames that do not come to their end take so much of all processes together, and it is given back") {
  constexpr std::size_t kClients = 20;
  constexpr std::size_t kSent = 60'000;  // of each; a buffer is at most twice as large
  LocalLimits limits;
  limits.half_frame_bytes = 5 * kSent;
  Fixture fixture(0, limits);
  const auto small = RawClient::unix_socket(fixture.path);
  std::vector<RawClient> halfway;
  while_loop_runs(fixture.loop, [&] {
    for (std::size_t i = 0; i < kClients; ++i) {
      halfway.push_back(RawClient::unix_socket(fixture.path));
      halfway.back().send(frame_for(std::string(1 << 20, 'x')).substr(0, kSent));
    }
  });
  REQUIRE(run_until(fixture.loop, [&] { return fixture.refusals.size() >= kClients - 6; }));
  CHECK(fixture.refusals[0].find("not whole") != std::string::npos);
  CHECK(fixture.ends.size() <= kClients - 2);
  while_loop_runs(fixture.loop, [&] {
    small.send(frame_for("x"));
    CHECK(small.read_exactly(9) == frame_for("got x"));
  });
  halfway.clear();
  REQUIRE(run_until(fixture.loop, [&] { return fixture.ends.size() == kClients; }));
  const std::size_t refused = fixture.refusals.size();
  const std::string large(100'000, 'x');
  while_loop_runs(fixture.loop, [&] {
    for (int i = 0; i < 10; ++i) {
      small.send(frame_for(large));
      CHECK(small.read_exactly(4 + 4 + large.size()).size() == 8 + large.size());
    }
  });
  CHECK(fixture.refusals.size() == refused);
}
