// A hundred million records through one real agent: rings as training processes hand them over, read and folded by the
// program trimtab-agent, whose memory must not depend on how many there were. Beside it runs a real coordinator, or
// none: then costs wait in the agent's spool.
//
// Ends with 1 where a record was lost or the agent grew.

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agents_load/coordinator_process.hpp"
#include "agents_load/daemon_metrics.hpp"
#include "agents_load/daemon_process.hpp"
#include "base/clock.hpp"
#include "made_up_ring.hpp"
#include "temporary_directory.hpp"

namespace {

using namespace trimtab;
using namespace trimtab::load;
using namespace std::chrono_literals;

constexpr int kRows = 10;

struct Options {
  std::uint64_t records = 100'000'000;
  std::uint32_t rings = 2;
  std::uint64_t kernels_per_second = 40'000;
  bool coordinator = true;
  double growth_mib = 16;
  std::string programs;
  std::string out;
};

// A connection that carries one ring, as the injected library makes it (docs/protocols.md).
class RingConnection {
 public:
  RingConnection(const std::string& path, int ring) {
    descriptor_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    good_ = ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && send(ring);
  }
  ~RingConnection() { ::close(descriptor_); }
  RingConnection(const RingConnection&) = delete;
  RingConnection& operator=(const RingConnection&) = delete;
  [[nodiscard]] bool good() const { return good_; }

 private:
  bool send(int ring) const {
    const std::string json =
        R"({"type":"ring","version":1,"pid":)" + std::to_string(::getpid()) + R"(,"job":"","rank":-1})";
    const auto length = static_cast<std::uint32_t>(json.size());
    std::string frame(reinterpret_cast<const char*>(&length), sizeof length);
    frame += json;
    iovec bytes{frame.data(), frame.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    cmsghdr* control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(control), &ring, sizeof ring);
    return ::sendmsg(descriptor_, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(frame.size());
  }

  int descriptor_ = -1;
  bool good_ = false;
};

double mib(Bytes bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

std::uint16_t free_port() {
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool bound = ::bind(probe, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
                     ::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ::close(probe);
  return bound ? ntohs(address.sin_port) : 0;
}

class RecordRun {
 public:
  explicit RecordRun(const Options& options) : options_(options) {}

  Status run() {
    if (directory_.path().empty()) return unavailable("no temporary directory can be made");
    TRIMTAB_TRY_STATUS(start());
    TRIMTAB_TRY_STATUS(hand_over_rings());
    say("$ agent_records, records " + std::to_string(options_.records) + ", rings " + std::to_string(options_.rings) +
        (options_.coordinator ? ", with a coordinator" : ", without a coordinator"));
    say("");
    say("| records | records/s | agent's RSS MiB | agent's CPU s | agent.db MiB | costs.db MiB |");
    say("|---|---|---|---|---|---|");
    for (int row = 1; row <= kRows; ++row) {
      TRIMTAB_TRY_STATUS(write_until(options_.records / kRows * static_cast<std::uint64_t>(row)));
      tell();
    }
    TRIMTAB_TRY_STATUS(read_counters());
    TRIMTAB_TRY_STATUS(agent_.end(SIGTERM));
    return coordinator_ ? coordinator_->end(SIGTERM) : Status{};
  }

  // What is wrong; empty: nothing.
  [[nodiscard]] std::string objection() const {
    if (read_ != written()) return fmt::format("the agent read {} of {} records", read_, written());
    if (dropped_ > 0) return fmt::format("{} records were dropped", dropped_);
    // Before that it fills what it fills once: tables, the databases' caches.
    const double growth = mib(resident_.back() - resident_[2]);
    if (growth > options_.growth_mib) return fmt::format("the agent grew by {:.1f} MiB", growth);
    return "";
  }
  [[nodiscard]] const std::string& table() const { return table_; }

 private:
  Status start() {
    std::uint16_t port = free_port();
    if (options_.coordinator) {
      coordinator_ = std::make_unique<CoordinatorProcess>(options_.programs + "/trimtab-coordinator", directory_.path(),
                                                          std::vector<std::string>{});
      TRIMTAB_TRY_STATUS(coordinator_->start());
      port = coordinator_->port();
    }
    metrics_port_ = free_port();
    const std::string state = directory_.file("agent");
    return agent_.start(
        {options_.programs + "/trimtab-agent", "--coordinator", "127.0.0.1:" + std::to_string(port), "--node", "n0",
         "--devices", "1", "--memory", "1GiB", "--state", state, "--socket", socket(), "--metrics-port",
         std::to_string(metrics_port_), "--sample-period", "0s", "--log-level", "error", "--run-as-root"},
        [this] {
          return std::filesystem::exists(socket()) && ask_metric(metrics_port_, "trimtab_agent_rings").has_value();
        });
  }

  // The job's own time is long, so it began long ago: stamps are never ahead of the agent's clock.
  Status hand_over_rings() {
    const std::uint64_t seconds = options_.records / options_.rings / options_.kernels_per_second + 60;
    const auto now = static_cast<std::uint64_t>(clock_.wall().count());
    for (std::uint32_t i = 0; i < options_.rings; ++i) {
      rings_.push_back(std::make_unique<MadeUpRing>(options_.kernels_per_second, now - seconds * 1'000'000'000ULL));
      const int descriptor = rings_.back()->descriptor();
      connections_.push_back(std::make_unique<RingConnection>(socket(), descriptor));
      ::close(descriptor);
      if (!connections_.back()->good()) return unavailable("the agent does not take the ring");
    }
    begin_ = clock_.monotonic();
    return {};
  }

  // And until all of it is read.
  Status write_until(std::uint64_t records) {
    const auto moved = [this] { return std::pair(written(), unread()); };
    auto last = moved();
    for (Nanoseconds since = clock_.monotonic();;) {
      for (const auto& ring : rings_) {
        if (ring->records() < records / rings_.size()) ring->fill();
      }
      if (written() >= records && unread() == 0) return {};
      std::this_thread::sleep_for(2ms);
      if (std::exchange(last, moved()) != last) since = clock_.monotonic();
      if (clock_.monotonic() - since > 30s) return unavailable("the agent has read nothing for 30 s");
    }
  }

  void tell() {
    const ProcessUse use = agent_.use();
    resident_.push_back(use.resident);
    const double seconds = std::chrono::duration<double>(clock_.monotonic() - begin_).count();
    say(fmt::format("| {} | {:.0f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} |", written(),
                    static_cast<double>(written()) / seconds, mib(use.resident), use.cpu_seconds,
                    mib(size("agent/agent.db")), mib(size("agent/costs.db"))));
  }

  // The agent counts after each reading, so what was read last may not be counted yet.
  Status read_counters() {
    for (int attempt = 0; attempt < 50 && read_ != written(); ++attempt) {
      std::this_thread::sleep_for(100ms);
      const auto records = ask_metric(metrics_port_, "trimtab_agent_records_total");
      const auto dropped = ask_metric(metrics_port_, "trimtab_agent_records_dropped_total");
      if (!records || !dropped) return unavailable("the agent's metrics cannot be read");
      read_ = static_cast<std::uint64_t>(*records);
      dropped_ = static_cast<std::uint64_t>(*dropped);
    }
    return {};
  }

  [[nodiscard]] std::uint64_t written() const {
    std::uint64_t records = 0;
    for (const auto& ring : rings_) records += ring->records();
    return records;
  }
  [[nodiscard]] std::uint64_t unread() const {
    std::uint64_t records = 0;
    for (const auto& ring : rings_) records += ring->unread();
    return records;
  }
  [[nodiscard]] std::string socket() const { return directory_.file("agent.sock"); }
  [[nodiscard]] Bytes size(const std::string& name) const {
    std::error_code absent;
    const auto bytes = std::filesystem::file_size(directory_.file(name), absent);
    return absent ? 0 : static_cast<Bytes>(bytes);
  }
  void say(const std::string& line) {
    table_ += line + "\n";
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }

  const Options& options_;
  SystemClock clock_;
  TemporaryDirectory directory_;
  std::unique_ptr<CoordinatorProcess> coordinator_;
  DaemonProcess agent_;
  std::uint16_t metrics_port_ = 0;
  std::vector<std::unique_ptr<MadeUpRing>> rings_;
  std::vector<std::unique_ptr<RingConnection>> connections_;
  std::vector<Bytes> resident_;
  Nanoseconds begin_{0};
  std::uint64_t read_ = 0;
  std::uint64_t dropped_ = 0;
  std::string table_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.programs = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  bool alone = false;
  CLI::App app{"Puts records through one agent and watches its memory."};
  app.add_option("--records", options.records, "in all")->check(CLI::Range(1'000'000ULL, 8'000'000'000ULL));
  app.add_option("--rings", options.rings, "processes' rings that they go through")->check(CLI::Range(1, 64));
  app.add_option("--kernels-per-second", options.kernels_per_second, "of a job by its own stamps")
      ->check(CLI::Range(1, 1'000'000));
  app.add_flag("--alone", alone, "without a coordinator");
  app.add_option("--most-growth-mib", options.growth_mib, "of the agent, from the third tenth on");
  app.add_option("--programs", options.programs, "where trimtab-agent and trimtab-coordinator are");
  app.add_option("--out", options.out, "a file for the table, too");
  CLI11_PARSE(app, argc, argv);
  options.coordinator = !alone;
  RecordRun run(options);
  const Status status = run.run();
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.error().message.c_str());
    return 3;
  }
  if (!options.out.empty() && !(std::ofstream(options.out) << run.table())) return 3;
  const std::string objection = run.objection();
  if (!objection.empty()) std::fprintf(stderr, "%s\n", objection.c_str());
  return objection.empty() ? 0 : 1;
}
