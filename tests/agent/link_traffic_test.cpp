// A link's probe beside one that fills the link, and over a wire that got longer: two network namespaces, joined by a
// pair of interfaces whose rate the kernel limits, or by frames that this process hands on. Needs root, iproute2 and
// the kernel's token bucket; says so where they are not there.

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>

#include "probes/hardware_probe.hpp"
#include "run_loop.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

// A process in a network namespace of its own, until it is destroyed.
class Rank {
 public:
  Rank() {
    int ready[2];
    if (::pipe(ready) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      const char answer = ::unshare(CLONE_NEWNET) == 0 ? 'y' : 'n';
      if (::write(ready[1], &answer, 1) == 1) ::pause();
      ::_exit(0);
    }
    char answer = 'n';
    alone_ = ::read(ready[0], &answer, 1) == 1 && answer == 'y';
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Rank() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] bool alone() const { return alone_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::string id() const { return std::to_string(pid_); }

 private:
  pid_t pid_ = -1;
  bool alone_ = false;
};

bool runs(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

bool joined(const Rank& one, const Rank& other) {
  const std::string in_one = "nsenter -t " + one.id() + " -n ";
  const std::string in_other = "nsenter -t " + other.id() + " -n ";
  return one.alone() && other.alone() &&
         runs(in_one + "ip link add name link0 type veth peer name link1 netns " + other.id()) &&
         runs(in_one + "ip address add 10.99.0.1/24 dev link0") && runs(in_one + "ip link set link0 up") &&
         runs(in_other + "ip address add 10.99.0.2/24 dev link1") && runs(in_other + "ip link set link1 up");
}

bool limited(const Rank& one, const Rank& other, const std::string& rate) {
  const auto limit = [&rate](const Rank& rank, const std::string& interface) {
    return runs("nsenter -t " + rank.id() + " -n tc qdisc replace dev " + interface + " root tbf rate " + rate +
                " burst 32kb latency 40ms");
  };
  return limit(one, "link0") && limit(other, "link1");
}

// A job that sends all that goes from one rank to the other's address, over so many connections.
class Filler {
 public:
  Filler(const Rank& from, const Rank& to, const std::string& address, int connections) {
    std::uint16_t port = 0;
    std::thread([&] {
      if (!enter_network_of(to.pid()).ok()) return;
      listening_.emplace(std::move(ProbeSocket::listen(address)).value());
      port = listening_->port();
    }).join();
    for (int i = 0; i < connections; ++i) {
      threads_.emplace_back([this, address, port, pid = from.pid()] {
        if (!enter_network_of(pid).ok()) return;
        const auto socket = ProbeSocket::connect(address, port, wait());
        const std::vector<std::byte> bytes(std::size_t{1} << 16);
        while (socket.ok() && socket->send(bytes, wait()).ok()) continue;
      });
      threads_.emplace_back([this] {
        const auto socket = listening_->accept(wait());
        std::vector<std::byte> bytes(std::size_t{1} << 16);
        while (socket.ok() && socket->receive(bytes, wait()).ok()) received_ += bytes.size();
      });
    }
  }
  ~Filler() {
    over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  [[nodiscard]] std::uint64_t received() const { return received_; }

 private:
  [[nodiscard]] ProbeWait wait() const { return {clock_, clock_.monotonic() + std::chrono::minutes(1), over_}; }

  SystemClock clock_;
  std::atomic<bool> over_ = false;
  std::atomic<std::uint64_t> received_ = 0;
  std::optional<ProbeSocket> listening_;
  std::vector<std::thread> threads_;
};

// Joins two ranks by a wire on which each frame is under way for so long.
class SlowWire {
 public:
  SlowWire(const Rank& one, const Rank& other)
      : ends_{end(one, "link0", "10.99.1.1"), end(other, "link1", "10.99.1.2")} {
    if (ends_[0] < 0 || ends_[1] < 0) return;
    thread_ = std::thread([this] { relay(); });
  }
  ~SlowWire() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
    for (const int one : ends_) {
      if (one >= 0) ::close(one);
    }
  }
  [[nodiscard]] bool joins() const { return thread_.joinable(); }
  void set_delay(Nanoseconds delay) { delay_ = delay.count(); }

 private:
  struct Frame {
    Nanoseconds due;
    int to;
    std::vector<char> bytes;
  };

  static int end(const Rank& rank, const std::string& name, const std::string& address) {
    int made = -1;
    std::thread([&] {
      if (!enter_network_of(rank.pid()).ok()) return;
      const int tap = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
      ifreq wanted{};
      std::memcpy(static_cast<char*>(wanted.ifr_name), name.c_str(), name.size());
      wanted.ifr_flags = IFF_TAP | IFF_NO_PI;
      if (tap >= 0 && ::ioctl(tap, TUNSETIFF, &wanted) == 0) made = tap;
    }).join();
    const std::string inside = "nsenter -t " + rank.id() + " -n ip ";
    const bool up = made >= 0 && runs(inside + "address add " + address + "/24 dev " + name) &&
                    runs(inside + "link set " + name + " up");
    return up ? made : -1;
  }
  void relay() {
    while (!over_) {
      pollfd both[2]{{ends_[0], POLLIN, 0}, {ends_[1], POLLIN, 0}};
      (void)::poll(both, 2, under_way_.empty() ? 20 : 1);
      for (int i = 0; i < 2; ++i) take(ends_[i], ends_[1 - i]);
      while (!under_way_.empty() && under_way_.front().due <= clock_.monotonic()) {
        const Frame& frame = under_way_.front();
        (void)!::write(frame.to, frame.bytes.data(), frame.bytes.size());  // a frame that finds no room is lost
        under_way_.pop_front();
      }
    }
  }
  void take(int from, int to) {
    char bytes[2048];
    for (ssize_t size = 0; (size = ::read(from, bytes, sizeof bytes)) > 0;) {
      under_way_.push_back({clock_.monotonic() + Nanoseconds(delay_), to, {bytes, bytes + size}});
    }
  }

  SystemClock clock_;
  std::atomic<bool> over_ = false;
  std::atomic<std::int64_t> delay_ = 0;
  std::deque<Frame> under_way_;
  int ends_[2];
  std::thread thread_;
};

struct Node {
  Node(const Rank& one, const Rank& other) {
    HardwareProbe::Surroundings parts{
        loop,
        clock,
        "127.0.0.1",
        [ranks = std::vector<NetworkRank>{{0, one.pid()}, {1, other.pid()}}](const std::string&) { return ranks; },
        [] { return std::vector<DeviceSpeed>(); },
        [this](const wire::FromAgent& message) {
          reports.push_back(message.probe_report());
          return true;
        }};
    parts.link.share = 0.9;
    probe = std::make_unique<HardwareProbe>(std::move(parts));
  }
  wire::ProbeReport next() {
    const std::size_t had = reports.size();
    REQUIRE(run_until(
        loop, [&] { return reports.size() > had; }, std::chrono::seconds(40)));
    return reports.back();
  }
  wire::ProbedLink measured() {
    wire::ProbeBegin begin;
    begin.set_id(++id);
    begin.set_token(std::string(32, 't'));
    begin.set_interface("link");
    begin.set_deadline_s(60);
    probe->begin(begin);
    const wire::ProbeReport begun = next();
    REQUIRE(begun.endpoints_size() == 2);
    wire::ProbeLink link;
    link.set_id(id);
    const wire::ProbeEndpoint& other = begun.endpoints(begun.endpoints(0).ranks(0) == 1 ? 0 : 1);
    link.set_address(other.address());
    link.set_port(other.port());
    link.set_counts(other.counts());
    probe->link(link);
    const wire::ProbeReport found = next();
    probe->end(id);
    INFO(found.error());
    REQUIRE(found.error().empty());
    UNSCOPED_INFO("alone " << found.link().bytes_per_s() << ", all " << found.link().capacity().bytes_per_s()
                           << ", used " << found.link().capacity().used() << ", spread "
                           << found.link().capacity().spread());
    return found.link();
  }

  std::uint64_t id = 0;
  net::EventLoop loop;
  SystemClock clock;
  std::vector<wire::ProbeReport> reports;
  std::unique_ptr<HardwareProbe> probe;
};

}  // namespace

TEST_CASE("a limited link is told at its limit while a job fills it", "[network]") {
  const Rank one;
  const Rank other;
  if (!joined(one, other) || !limited(one, other, "80mbit")) {
    WARN("this user may not make network namespaces and limit links, or iproute2 is not there");
    return;
  }
  Node node(one, other);
  const wire::ProbedLink alone = node.measured();
  REQUIRE(alone.has_capacity());
  const double before = alone.capacity().bytes_per_s();
  REQUIRE(limited(one, other, "20mbit"));
  const Filler there(one, other, "10.99.0.2", 6);
  const Filler back(other, one, "10.99.0.1", 6);
  REQUIRE(run_until(node.loop, [&] { return std::min(there.received(), back.received()) > 1'000'000; }));
  const wire::ProbedLink filled = node.measured();
  // By what the job leaves it would be a small part of the limit.
  CHECK(filled.bytes_per_s() / before < 0.15);
  CHECK(filled.capacity().bytes_per_s() / before == Approx(0.25).epsilon(0.15));
  CHECK(filled.capacity().used() > 0.4);
}

TEST_CASE("a wire that got longer is told by its round trips", "[network]") {
  const Rank one;
  const Rank other;
  SlowWire wire(one, other);
  if (!one.alone() || !other.alone() || !wire.joins()) {
    WARN("this user may not make network namespaces with interfaces of their own, or iproute2 is not there");
    return;
  }
  Node node(one, other);
  const double before_us = node.measured().round_trip_us();
  wire.set_delay(std::chrono::milliseconds(5));
  const double after_us = node.measured().round_trip_us();
  CHECK(before_us < 5'000);
  CHECK(after_us >= 10'000);
  CHECK(after_us < 20'000);
}
