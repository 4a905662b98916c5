#pragma once

// Real programs with the injected library in them, and an agent that only takes rings. For tests that need processes;
// all waits have deadlines.

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "records/ring_reader.hpp"

namespace rig {

// A range as a test compares it: texts owned.
struct Seen {
  std::string name;
  std::string domain;
  std::int64_t payload = 0;
  std::int64_t duration_ns = 0;
  std::uint32_t thread = 0;
  std::uint16_t kind = 0;
  std::uint16_t flags = 0;
  std::uint16_t depth = 0;
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t domain_value = 0;
  std::array<std::uint16_t, 7> detail{};
};

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// One process's ring connection.
class RingConnection {
 public:
  RingConnection(int socket, std::string frame, std::unique_ptr<trimtab::agent::RingReader> reader, void* header);
  ~RingConnection();
  RingConnection(const RingConnection&) = delete;
  RingConnection& operator=(const RingConnection&) = delete;

  [[nodiscard]] const std::string& frame() const { return frame_; }
  [[nodiscard]] trimtab::agent::RingReader& reader() { return *reader_; }
  // What the process and the agent write beside the records.
  [[nodiscard]] trimtab::record::RingHeader& header() { return *header_; }
  // Waits until the process's end of the connection is closed.
  void wait_for_end();
  // All that is in the ring now; the drain's counts are added to `counts`.
  std::vector<Seen> take();
  trimtab::agent::RingDrain counts;

 private:
  int socket_;
  std::string frame_;
  std::unique_ptr<trimtab::agent::RingReader> reader_;
  trimtab::record::RingHeader* header_;
};

class Agent {
 public:
  // At most `backlog` + 1 processes can wait to be accepted.
  explicit Agent(std::string path, int backlog = 8);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  // The next ring; fails the test when none comes within 10 s.
  std::unique_ptr<RingConnection> accept();
  // The next process's frame, which must come with nothing.
  std::string accept_without_ring();
  // Whether anybody has connected and not been accepted yet.
  [[nodiscard]] bool somebody_waits() const;

 private:
  [[nodiscard]] int accept_socket() const;

  std::string path_;
  int listener_;
  trimtab::SystemClock clock_;
};

// A child process with exactly this environment, besides what sanitizers need.
class Program {
 public:
  Program(const std::string& path, std::vector<std::string> arguments, std::map<std::string, std::string> environment);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void write_line();                      // ends its `wait` or `tick`
  [[nodiscard]] std::string read_line();  // of its standard output; "" at the end
  int wait();                             // the status of waitpid
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
};

void pause_a_little();  // a millisecond
void give_up_waiting();

// Takes records until `done` says so of all that came; fails the test after 10 s.
template <typename Done>
std::vector<Seen> take_until(RingConnection& ring, Done done) {
  std::vector<Seen> all;
  for (int tries = 0; tries < 10000; ++tries) {
    for (Seen& seen : ring.take()) all.push_back(std::move(seen));
    if (done(all)) return all;
    pause_a_little();
  }
  give_up_waiting();
  return all;
}
// How many of them have the name.
std::size_t count(const std::vector<Seen>& records, const std::string& name);
const Seen& only(const std::vector<Seen>& records, const std::string& name);

}  // namespace rig
