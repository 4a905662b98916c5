#include "process_rig.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

namespace rig {

namespace {

constexpr int kDeadlineMs = 10000;

bool readable(int descriptor, int timeout_ms) {
  pollfd waiting{descriptor, POLLIN, 0};
  return poll(&waiting, 1, timeout_ms) > 0;
}

// Reads a frame and the descriptor that came with it, -1 where none did.
std::string receive_frame(int socket, int& descriptor) {
  char buffer[4096];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  iovec part{buffer, sizeof(buffer)};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  REQUIRE(readable(socket, kDeadlineMs));
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  REQUIRE(got > 4);
  const cmsghdr* attached = CMSG_FIRSTHDR(&message);
  descriptor = -1;
  if (attached != nullptr) {
    REQUIRE(attached->cmsg_type == SCM_RIGHTS);
    std::memcpy(&descriptor, CMSG_DATA(attached), sizeof(int));
  }
  std::uint32_t length = 0;
  std::memcpy(&length, buffer, sizeof(length));
  REQUIRE(length == static_cast<std::uint32_t>(got) - 4);
  return {buffer + 4, length};
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  char pattern[] = "/tmp/trimtab-test-XXXXXX";
  REQUIRE(mkdtemp(pattern) != nullptr);
  path_ = pattern;
}
TemporaryFolder::~TemporaryFolder() {
  std::filesystem::remove_all(path_);
}

RingConnection::RingConnection(int socket, std::string frame, std::unique_ptr<trimtab::agent::RingReader> reader,
                               void* header)
    : socket_(socket),
      frame_(std::move(frame)),
      reader_(std::move(reader)),
      header_(static_cast<trimtab::record::RingHeader*>(header)) {}
RingConnection::~RingConnection() {
  munmap(header_, sizeof(*header_));
  close(socket_);
}

void RingConnection::wait_for_end() {
  char byte = 0;
  REQUIRE(readable(socket_, kDeadlineMs));
  REQUIRE(recv(socket_, &byte, 1, 0) == 0);
  reader_->producer_ended();
}

std::vector<Seen> RingConnection::take() {
  std::vector<Seen> records;
  const auto drain = reader_->drain(SIZE_MAX, [&](std::span<const trimtab::agent::RangeRecord> batch) {
    for (const auto& record : batch) {
      records.push_back({std::string(record.name), std::string(record.domain), record.payload, record.duration_ns(),
                         record.thread, record.kind, record.flags, record.depth, record.begin_ns, record.end_ns,
                         record.domain_value, record.detail});
    }
  });
  counts.records += drain.records;
  counts.skipped += drain.skipped;
  counts.malformed += drain.malformed;
  counts.dropped += drain.dropped;
  counts.untracked += drain.untracked;
  return records;
}

Agent::Agent(std::string path, int backlog)
    : path_(std::move(path)), listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(path_.size() < sizeof(address.sun_path));
  std::memcpy(address.sun_path, path_.c_str(), path_.size());
  REQUIRE(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  REQUIRE(listen(listener_, backlog) == 0);
}

Agent::~Agent() {
  close(listener_);
  unlink(path_.c_str());
}

int Agent::accept_socket() const {
  REQUIRE(readable(listener_, kDeadlineMs));
  const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  REQUIRE(socket >= 0);
  return socket;
}

std::string Agent::accept_without_ring() {
  const int socket = accept_socket();
  int descriptor = -1;
  std::string frame = receive_frame(socket, descriptor);
  close(socket);
  CHECK(descriptor < 0);
  return frame;
}

std::unique_ptr<RingConnection> Agent::accept() {
  const int socket = accept_socket();
  int descriptor = -1;
  std::string frame = receive_frame(socket, descriptor);
  REQUIRE(descriptor >= 0);
  void* header = mmap(nullptr, sizeof(trimtab::record::RingHeader), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  REQUIRE(header != MAP_FAILED);
  auto reader = trimtab::agent::RingReader::attach(descriptor, clock_);
  if (!reader) FAIL(reader.error().message);
  return std::make_unique<RingConnection>(socket, std::move(frame), std::move(reader).value(), header);
}

bool Agent::somebody_waits() const {
  return readable(listener_, 0);
}

Program::Program(const std::string& path, std::vector<std::string> arguments,
                 std::map<std::string, std::string> environment) {
  environment["ASAN_OPTIONS"] = "detect_leaks=0";
  if (const char* const options = std::getenv("TSAN_OPTIONS")) environment["TSAN_OPTIONS"] = options;
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  std::vector<char*> argv{const_cast<char*>(path.c_str())};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (std::string& variable : variables) envp.push_back(variable.data());
  envp.push_back(nullptr);
  int input[2];
  int output[2];
  REQUIRE(pipe2(input, O_CLOEXEC) == 0);
  REQUIRE(pipe2(output, O_CLOEXEC) == 0);
  pid_ = fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    dup2(input[0], 0);
    dup2(output[1], 1);
    execve(path.c_str(), argv.data(), envp.data());
    _exit(127);
  }
  close(input[0]);
  close(output[1]);
  input_ = input[1];
  output_ = output[0];
}

Program::~Program() {
  close(input_);
  close(output_);
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

void Program::write_line() {
  REQUIRE(write(input_, "\n", 1) == 1);
}

std::string Program::read_line() {
  std::string line;
  char byte = 0;
  while (readable(output_, kDeadlineMs) && read(output_, &byte, 1) == 1 && byte != '\n') line += byte;
  return line;
}

int Program::wait() {
  int status = -1;
  REQUIRE(waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  return status;
}

void pause_a_little() {
  poll(nullptr, 0, 1);
}
void give_up_waiting() {
  FAIL("what was waited for did not come within 10 s");
}

std::size_t count(const std::vector<Seen>& records, const std::string& name) {
  return static_cast<std::size_t>(std::ranges::count(records, name, &Seen::name));
}

const Seen& only(const std::vector<Seen>& records, const std::string& name) {
  INFO(name);
  REQUIRE(count(records, name) == 1);
  return *std::ranges::find(records, name, &Seen::name);
}

}  // namespace rig
