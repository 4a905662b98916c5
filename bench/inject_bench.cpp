// What a range costs the job: a push and a pop through the shared objects, as the Python client and NVTX programs reach
// them. Each state of the library is a copy of the file, since a loaded library reads the environment once.

#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "records/ring_reader.hpp"

#ifdef __x86_64__
#include <x86intrin.h>
#endif

namespace {

using Push = void (*)(const char*, std::int64_t);
using Pop = void (*)();

struct PushAndPop {
  Push push = nullptr;
  Pop pop = nullptr;
};

const std::string kFolder = "/tmp/trimtab-bench-" + std::to_string(getpid());

PushAndPop load(const char* library, const std::string& copy, const char* push, const char* pop) {
  const std::string path = kFolder + "/" + copy;
  std::filesystem::copy_file(library, path, std::filesystem::copy_options::overwrite_existing);
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {};
  return {reinterpret_cast<Push>(dlsym(handle, push)), reinterpret_cast<Pop>(dlsym(handle, pop))};
}

PushAndPop load_client(const std::string& copy) {
  return load(INJECT_LIBRARY, copy, "trimtab_range_push", "trimtab_range_pop");
}

// Takes rings and empties them, as the agent does, on a thread of its own.
class Agent {
 public:
  explicit Agent(const std::string& path) : listener_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof(address.sun_path), "%s", path.c_str());
    if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) std::abort();
    listen(listener_, 4);
    thread_ = std::thread([this] { run(); });
  }
  ~Agent() {
    stop_ = true;
    thread_.join();
    close(listener_);
  }

 private:
  void run() {
    while (!stop_) {
      pollfd waiting{listener_, POLLIN, 0};
      if (poll(&waiting, 1, 1) > 0) take();
      for (auto& reader : readers_) reader->drain(SIZE_MAX, [](std::span<const trimtab::agent::RangeRecord>) {});
    }
  }
  void take() {
    const int peer = accept(listener_, nullptr, nullptr);
    char frame[1024];
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    iovec part{frame, sizeof(frame)};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (recvmsg(peer, &message, 0) <= 0 || CMSG_FIRSTHDR(&message) == nullptr) return;
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    if (auto reader = trimtab::agent::RingReader::attach(descriptor, clock_))
      readers_.push_back(std::move(reader).value());
  }

  int listener_;
  trimtab::SystemClock clock_;
  std::vector<std::unique_ptr<trimtab::agent::RingReader>> readers_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void push_pop(benchmark::State& state, PushAndPop way) {
  if (way.push == nullptr || way.pop == nullptr) return state.SkipWithError("the library could not be loaded");
  for (auto _ : state) {
    way.push("op/layer.11.attention/forward", 4);
    way.pop();
  }
}

// Four names, each in a buffer that others use too: every push has to hash its name.
void push_pop_new_buffers(benchmark::State& state, PushAndPop way) {
  char buffer[64];
  unsigned i = 0;
  for (auto _ : state) {
    std::memcpy(buffer, "op/layer.0.attention/forward", 29);
    buffer[9] = static_cast<char>('0' + i++ % 8);
    way.push(buffer, 4);
    way.pop();
  }
}

void clock_gettime_twice(benchmark::State& state) {
  timespec time{};
  for (auto _ : state) {
    clock_gettime(CLOCK_REALTIME, &time);
    clock_gettime(CLOCK_REALTIME, &time);
    benchmark::DoNotOptimize(time);
  }
}
BENCHMARK(clock_gettime_twice);

#ifdef __x86_64__
void rdtsc_twice(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(__rdtsc());
    benchmark::DoNotOptimize(__rdtsc());
  }
}
BENCHMARK(rdtsc_twice);
#endif

void register_all() {
  unsetenv("TRIMTAB_SOCKET");
  const PushAndPop off = load_client("off.so");
  if (off.push != nullptr) off.push("", 0);
  setenv("TRIMTAB_SOCKET", (kFolder + "/nobody").c_str(), 1);
  const PushAndPop waiting = load_client("waiting.so");
  if (waiting.push != nullptr) waiting.push("", 0);
  benchmark::RegisterBenchmark("client_off", push_pop, off);
  benchmark::RegisterBenchmark("client_no_agent", push_pop, waiting);
  setenv("TRIMTAB_SOCKET", (kFolder + "/agent").c_str(), 1);
  const PushAndPop connected = load_client("connected.so");
  benchmark::RegisterBenchmark("client_connected", push_pop, connected);
  benchmark::RegisterBenchmark("client_connected_new_buffers", push_pop_new_buffers, connected);
  benchmark::RegisterBenchmark("client_connected_two_threads", push_pop, connected)->Threads(2);
#ifdef NVTX_SHIM
  unsetenv("NVTX_INJECTION64_PATH");
  const PushAndPop nvtx_off = load(NVTX_SHIM, "nvtx_off.so", "trimtab_nvtx_push", "trimtab_nvtx_pop");
  if (nvtx_off.push != nullptr) nvtx_off.push("", 0);
  setenv("NVTX_INJECTION64_PATH", (kFolder + "/connected.so").c_str(), 1);
  const PushAndPop nvtx = load(NVTX_SHIM, "nvtx_on.so", "trimtab_nvtx_push", "trimtab_nvtx_pop");
  benchmark::RegisterBenchmark("nvtx_not_injected", push_pop, nvtx_off);
  benchmark::RegisterBenchmark("nvtx_connected", push_pop, nvtx);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  std::filesystem::create_directory(kFolder);
  {
    Agent agent(kFolder + "/agent");
    register_all();
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
  }
  std::filesystem::remove_all(kFolder);
}
