// CUPTI in processes that fork, die, replace themselves, or have no CUPTI to speak of.

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda_job.hpp"
#include "skipping.hpp"

using namespace rig;

TEST_CASE("any function of CUPTI that fails leaves the program alone, with a reason") {
  struct Failure {
    std::string script;
    record::CuptiReason reason;
    std::uint32_t result;
  };
  for (const Failure& failure :
       std::vector<Failure>{{"cuptiGetVersion=999", record::kCuptiRefused, 999},
                            {"version=17", record::kCuptiTooOld, 0},
                            {"version=140000", record::kCuptiTooNew, 0},
                            {"cuptiActivityRegisterCallbacks=15", record::kCuptiRefused, 15},
                            {"cuptiActivityRegisterCallbacks=39", record::kCuptiBusy, 39},
                            {"cuptiActivityEnable=35", record::kCuptiRefused, 35},
                            {"cuptiActivityEnable=39@4", record::kCuptiBusy, 39},
                            {"cuptiActivityFlushAll=999", record::kCuptiRefused, 999},
                            {"cuptiActivityGetNumDroppedRecords=999@3", record::kCuptiForeign, 999}}) {
    INFO(failure.script);
    CudaJob job(failure.script);
    Agent agent(job.socket);
    Program program = job.run(
        {"push:a", "init", "push:b", "pop", "launch:100", "tick", "launch:100", "enabled:10", "count:cuptiSubscribe"});
    const auto ring = agent.accept();
    wait_until([&] { return reason_of(*ring) == failure.reason; });
    CHECK(result_of(*ring) == failure.result);
    program.write_line();
    CHECK(program.read_line() == "enabled 0");
    CHECK(program.read_line() == "count 0");
    CHECK(program.wait() == 0);
    CHECK(count(ring->take(), "b") == 1);  // ranges go on
    CHECK(ring->header().detail == record::kDetailCollectives);
  }
}

TEST_CASE("CUPTI is not flushed before it has asked for a buffer") {
  CudaJob job("cuptiActivityFlushAll=999");
  Agent agent(job.socket);
  Program program = job.run({"init", "wait:idle", "count:cuptiActivityFlushAll"});
  const auto ring = agent.accept();
  CHECK(program.read_line() == "idle");
  for (int i = 0; i < 200; ++i) pause_a_little();  // many flushes' time
  CHECK(reason_of(*ring) == record::kCuptiRunning);
  program.write_line();
  CHECK(program.read_line() == "count 0");
  CHECK(program.wait() == 0);
}

TEST_CASE("optional parts that a release refuses are done without") {
  for (const std::string script : {"cuptiActivityPushExternalCorrelationId=999", "cuptiActivityEnableRuntimeApi=11"}) {
    INFO(script);
    CudaJob job(script);
    const auto records = records_of(job, {"init", "push:a", "launch:10", "pop"});
    CHECK(count_kind(records, record::kKernel) == 10);
    CHECK(count(records, "a") == 1);
  }
}

TEST_CASE("CUPTI is not touched where it is not wanted") {
  for (const auto& extra : std::vector<std::map<std::string, std::string>>{{{"TRIMTAB", "0"}},
                                                                           {{"TRIMTAB_SOCKET", "/nowhere/agent.sock"}},
                                                                           {{"TRIMTAB_CUPTI", "0"}},
                                                                           {{"TRIMTAB_BUDGET", "0"}},
                                                                           {{"CUDA_INJECTION64_PATH", "none"}}}) {
    CudaJob job;
    Agent agent(job.socket);
    for (const auto& [name, value] : extra) job.environment[name] = value;
    Program program =
        job.run({"init", "launch:10", "count:cuptiActivityEnable", "count:cuptiActivityRegisterCallbacks"});
    CHECK(program.read_line() == "count 0");
    CHECK(program.read_line() == "count 0");
    CHECK(program.wait() == 0);
  }
}

TEST_CASE("a process with CUDA that its driver was not to tell us of says why no kernel comes") {
  struct Case {
    std::string injection;
    record::CuptiReason reason;
  };
  for (const Case& one : {Case{"none", record::kCuptiSwitchedOff}, Case{"", record::kCuptiNotInjected}}) {
    INFO("CUDA_INJECTION64_PATH=" << one.injection);
    CudaJob job;
    job.environment["TRIMTAB_LIBRARY"] = INJECT_LIBRARY;
    job.environment.erase("CUDA_INJECTION64_PATH");
    if (!one.injection.empty()) job.environment["CUDA_INJECTION64_PATH"] = one.injection;
    Agent agent(job.socket);
    Program program = job.run({"ranges", "push:a", "pop", "wait:host", "init", "tick", "wait:device"});
    const auto ring = agent.accept();
    CHECK(program.read_line() == "host");
    CHECK(reason_of(*ring) == record::kCuptiNotAsked);  // the driver is there, and has not begun
    CHECK_FALSE(ring->reader().device_unseen());
    program.write_line();
    wait_until([&] { return reason_of(*ring) == one.reason; });  // looked at once a second
    CHECK(ring->reader().device_unseen());
    program.write_line();
    CHECK(program.read_line() == "device");
    program.write_line();
    CHECK(program.wait() == 0);
    CHECK(count_kind(ring->take(), record::kKernel) == 0);
  }
}

TEST_CASE("a process with CUDA and without CUPTI that ends within a second has said so") {
  CudaJob job;
  job.environment["TRIMTAB_LIBRARY"] = INJECT_LIBRARY;
  job.environment["CUDA_INJECTION64_PATH"] = "none";
  Agent agent(job.socket);
  Program program = job.run({"ranges", "push:a", "pop", "init", "push:b", "pop"});
  const auto ring = agent.accept();
  CHECK(program.wait() == 0);
  CHECK(ring->reader().device_unseen());
  CHECK(count(ring->take(), "b") == 1);
}

TEST_CASE("a libcupti that the process has loaded comes before all others") {
  CudaJob job("version=24");
  for (const char* name : {"libcupti.so.12", "libcupti.so.13"}) {
    std::filesystem::copy_file(FAKE_CUPTI_LIBRARY, job.folder.file(name));
  }
  job.environment.erase("TRIMTAB_CUPTI_LIBRARY");
  job.environment["FAKE_CUPTI_LIBRARY"] = job.folder.file("libcupti.so.12");
  job.environment["LD_LIBRARY_PATH"] = job.folder.file("");
  CHECK(count_kind(records_of(job, {"init", "launch:10"}), record::kKernel) == 10);
}

// Whether a program that looks for the library finds it. Asked in a process of its own: the vendor's library brings
// threads and storage of its own, and stays loaded; a leak check at this process's end would have to walk them.
static bool is_installed(const char* library) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(dlopen(library, RTLD_LAZY | RTLD_LOCAL) == nullptr ? 1 : 0);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status == 0;
}

TEST_CASE("a libcupti that is only installed is found by any of its names") {
  for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"}) {
    INFO(name);
    if (std::string(name) != "libcupti.so.13" && is_installed("libcupti.so.13")) {
      WARN("skipped: the machine's own libcupti.so.13 comes before " << name);
      continue;
    }
    TemporaryFolder folder;
    std::filesystem::copy_file(FAKE_CUPTI_LIBRARY, folder.file(name));
    Agent agent(folder.file("agent.sock"));
    Program program(RANGES_PROGRAM, {"cuda", "wait:done"},
                    {{"TRIMTAB_SOCKET", folder.file("agent.sock")},
                     {"TRIMTAB_LIBRARY", INJECT_LIBRARY},
                     {"LD_LIBRARY_PATH", folder.file("")},
                     {"FAKE_CUPTI", "version=19"}});
    const auto ring = agent.accept();
    CHECK(program.read_line() == "cuda 1");
    CHECK(program.read_line() == "done");
    CHECK(reason_of(*ring) == record::kCuptiRunning);
    CHECK(ring->header().cupti_version == 19);
    program.write_line();
    CHECK(program.wait() == 0);
  }
}

TEST_CASE("a machine without libcupti has its reason in the ring") {
  CudaJob job;
  job.environment["TRIMTAB_CUPTI_LIBRARY"] = job.folder.file("libcupti.so.13");
  Agent agent(job.socket);
  Program program = job.run({"init", "push:a", "pop"});
  const auto ring = agent.accept();
  CHECK(program.wait() == 0);
  CHECK(reason_of(*ring) == record::kCuptiNoLibrary);
  CHECK(count(ring->take(), "a") == 1);
}

TEST_CASE("once there are kernels the ring says which GPU or MIG instance each device number means") {
  CudaJob job;
  Agent agent(job.socket);
  Program program = job.run({"init", "wait:idle", "tick"});
  const auto ring = agent.accept();
  CHECK(program.read_line() == "idle");
  CHECK(count_kind(ring->take(), record::kDevice) == 0);
  program.write_line();
  std::vector<Seen> devices;
  wait_until([&] {
    for (const Seen& seen : ring->take()) {
      if (seen.kind == record::kDevice) devices.push_back(seen);
    }
    return devices.size() >= 2;
  });
  CHECK(devices[0].depth == 0);
  CHECK(devices[0].name == "GPU-00102030-4050-6070-8090-a0b0c0d0e0f0");
  CHECK(devices[1].depth == 1);
  CHECK(devices[1].name == "MIG-01112131-4151-6171-8191-a1b1c1d1e1ff");
  program.write_line();
  CHECK(program.wait() == 0);
  CHECK(count_kind(ring->take(), record::kDevice) == 0);  // not again for ten seconds
}

TEST_CASE("without its agent a program is no longer profiled, until one comes") {
  CudaJob job;
  auto first = std::make_unique<Agent>(job.socket);
  Program program = job.run({"init", "tick", "enabled:10", "tick"});
  auto ring = first->accept();
  take_until(*ring, [](const auto& all) { return count(all, "gemm") >= 10; });
  ring.reset();
  first.reset();
  const auto second_after = [] {
    for (int i = 0; i < 2500; ++i) pause_a_little();  // the library looks for its agent once a second
  };
  second_after();
  program.write_line();
  CHECK(program.read_line() == "enabled 0");
  Agent second(job.socket);
  const auto again = second.accept();
  const auto records = take_until(*again, [](const auto& all) {
    const auto window = std::ranges::find(all, "no_agent", &Seen::name);
    return window != all.end() &&
           std::ranges::any_of(window, all.end(), [](const Seen& s) { return s.name == "gemm"; });
  });
  CHECK(count(records, "no_agent") >= 1);
  program.write_line();
  CHECK(program.wait() == 0);
}

TEST_CASE("a forked child of a CUDA program records ranges, no kernels, and disturbs nobody") {
  CudaJob job;
  Agent agent(job.socket);
  Program program = job.run({"init", "launch:10", "fork:child", "launch:10"});
  const auto parent = agent.accept();
  const auto child = agent.accept();
  CHECK(program.wait() == 0);
  CHECK(count_kind(parent->take(), record::kKernel) == 20);
  const auto of_child = child->take();
  CHECK(count(of_child, "child") == 1);
  CHECK(count_kind(of_child, record::kKernel) == 0);
  CHECK(reason_of(*child) == record::kCuptiForkedChild);
}

TEST_CASE("a child that starts CUDA itself is injected afresh") {
  CudaJob job;
  Agent agent(job.socket);
  Program program = job.run({"fork_init:in the child", "init", "kernel:in the parent"});
  const auto child = agent.accept();
  const auto parent = agent.accept();
  CHECK(program.wait() == 0);
  CHECK(count(child->take(), "in the child") == 1);
  CHECK(count(parent->take(), "in the parent") == 1);
}

TEST_CASE("a CUDA program that replaces itself starts again") {
  CudaJob job;
  Agent agent(job.socket);
  Program program = job.run({"init", "kernel:before", "wait:1", "exec", "init", "kernel:after"});
  const auto before = agent.accept();
  CHECK(program.read_line() == "1");
  take_until(*before, [](const auto& all) { return count(all, "before") == 1; });
  program.write_line();
  const auto after = agent.accept();
  CHECK(program.wait() == 0);
  CHECK(count(after->take(), "after") == 1);
}

TEST_CASE("a CUDA program that is killed leaves a ring that can be read to its end") {
  for (int round = 0; round < 5; ++round) {
    CudaJob job("small=50");
    Agent agent(job.socket);
    Program program = job.run({"init", "background:2", "wait:never"});
    const auto ring = agent.accept();
    take_until(*ring, [](const auto& all) { return all.size() > 1000; });
    kill(program.pid(), SIGKILL);
    ring->wait_for_end();
    ring->take();
    CHECK(ring->counts.malformed == 0);
    CHECK(ring->reader().finished());
    program.wait();
  }
}

TEST_CASE("a CUDA program may exit while its threads go on launching") {
  for (int round = 0; round < 5; ++round) {
    CudaJob job("small=50");
    Agent agent(job.socket);
    Program program = job.run({"init", "background:3", "launch:1000"});
    const auto ring = agent.accept();
    CHECK(program.wait() == 0);
    ring->take();
    CHECK(ring->counts.malformed == 0);
    CHECK(ring->reader().closed());
  }
}

TEST_CASE("PyTorch trains on, bit for bit, with the library and CUPTI in its process [needs:torch]") {
  const std::string script =
      "import ctypes, os, sys\n"
      "try:\n  import torch\n"
      "except ImportError:\n  print('no torch'); sys.exit(0)\n"
      "torch.manual_seed(1); torch.set_num_threads(2)\n"
      "cuda = os.environ.get('FAKE_CUDA')\n"
      "if cuda: assert ctypes.CDLL(cuda).cuInit(0) == 0\n"
      "model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))\n"
      "optimizer = torch.optim.Adam(model.parameters())\n"
      "for step in range(20):\n"
      "  loss = model(torch.randn(32, 64)).square().mean()\n"
      "  optimizer.zero_grad(); loss.backward(); optimizer.step()\n"
      "print(loss.item().hex(), sum(p.double().sum().item() for p in model.parameters()).hex())\n";
  Program bare("/usr/bin/python3", {"-c", script}, {});
  const std::string expected = bare.read_line();
  const int bare_code = bare.wait();
  if (expected.find("0x") == std::string::npos || SANITIZED) {
    return trimtab::test::skip("no PyTorch for /usr/bin/python3, or a sanitizer that it does not load with");
  }
  CHECK(bare_code == 0);
  CudaJob job;
  job.environment["NVTX_INJECTION64_PATH"] = INJECT_LIBRARY;
  Agent agent(job.socket);
  Program injected("/usr/bin/python3", {"-c", script}, job.environment);
  const auto ring = agent.accept();
  CHECK(injected.read_line() == expected);
  CHECK(injected.wait() == 0);
  CHECK(reason_of(*ring) == record::kCuptiRunning);
  CHECK(ring->reader().closed());
  ring->take();
  CHECK(ring->counts.malformed == 0);
}

TEST_CASE("an exit by _exit loses only what CUPTI still had") {
  CudaJob job;
  Agent agent(job.socket);
  Program program = job.run({"init", "launch:10", "_exit:5"});
  const auto ring = agent.accept();
  ring->wait_for_end();
  CHECK(WEXITSTATUS(program.wait()) == 5);
  CHECK(ring->counts.malformed == 0);
}
