#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "../program.hpp"
#include "sample_costs.hpp"

using nlohmann::json;
using trimtab::CostDatabase;

namespace {

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { REQUIRE(::setenv(name, value.c_str(), 1) == 0); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

json doctor() {
  const Outcome outcome = ::trimtab_program({"doctor", "--json"});
  INFO(outcome.err);
  REQUIRE((outcome.exit_code == 0 || outcome.exit_code == 1));
  return json::parse(outcome.out);
}

json check_named(const json& report, const std::string& name) {
  for (const json& check : report.at("checks")) {
    if (check.at("name") == name) return check;
  }
  FAIL("no check " << name);
  return {};
}

}  // namespace

TEST_CASE("doctor names what is wrong in the files of services, and a coordinator that is not there") {
  const Scratch scratch;
  scratch.file("agent.toml", "coordinater = \"c0:7420\"\n");
  scratch.file("coordinator.toml", "tokens = \"" + scratch.path("tokens") + "\"\n");
  const Outcome outcome = ::trimtab_program(
      {"doctor", "--json", "--configuration", scratch.path(""), "--metrics-port", "0", "--coordinator", "127.0.0.1:1"});
  REQUIRE(outcome.exit_code == 1);
  const json report = json::parse(outcome.out);
  std::string found;
  for (const json& check : report.at("checks")) {
    if (check.at("health") == "fail") found += check.at("found").get<std::string>() + "\n";
  }
  CHECK(found.find("agent.toml:1") != std::string::npos);
  CHECK(found.find("did you mean \"coordinator\"?") != std::string::npos);
  CHECK(found.find("trimtab token add") != std::string::npos);
  CHECK(check_named(report, "coordinator").at("found").get<std::string>().find("127.0.0.1:1") != std::string::npos);
}

TEST_CASE("doctor changes no database, makes none and leaves nothing beside one") {
  const Scratch scratch;
  const std::string up = scratch.path("up");
  std::filesystem::create_directories(up);
  {
    CostDatabase made = trimtab::test::open_costs(scratch.path("made.db"));
    const auto costs = std::vector{trimtab::test::forward_cost("a", {1, 2, 3})};
    REQUIRE(made.add_batch({"o", 1}, trimtab::test::sample_fingerprint(), "active", costs).ok());
    // As its process left it when it was killed.
    scratch.file("up/costs.db", content_of(scratch.path("made.db")));
    scratch.file("up/costs.db-wal", content_of(scratch.path("made.db-wal")));
  }
  std::string newer = content_of(scratch.path("made.db"));
  newer.at(63) = 99;  // its version, at offset 60
  scratch.file("up/agent.db", newer);
  scratch.file("up/coordinator.db", content_of(scratch.path("made.db")).substr(0, 1000) + "damaged");
  scratch.file("agent.toml", "metrics_port = 0\nstate = \"" + up + "\"\n");
  scratch.file("coordinator.toml", "state = \"" + up + "\"\n");
  const auto files = [&up] {
    std::map<std::string, std::pair<std::string, std::filesystem::file_time_type>> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(up)) {
      found[entry.path().string()] = {content_of(entry.path().string()), entry.last_write_time()};
    }
    return found;
  };
  const auto before = files();
  REQUIRE(before.size() == 4);
  const Outcome outcome = ::trimtab_program({"doctor", "--json", "--configuration", scratch.path(""), "--state", up});
  INFO(outcome.err);
  REQUIRE((outcome.exit_code == 0 || outcome.exit_code == 1));
  CHECK(check_named(json::parse(outcome.out), "state directory").at("found") == up);
  CHECK(files() == before);
}

TEST_CASE("doctor asks of a machine of services what these need, and nothing of 'trimtab up' or of the other one") {
  const Scratch scratch;
  const auto names = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command{"doctor", "--json", "--metrics-port", "0", "--configuration", scratch.path("")};
    command.insert(command.end(), more.begin(), more.end());
    std::set<std::string> found;
    const json report = json::parse(::trimtab_program(command).out);
    for (const json& check : report.at("checks")) found.insert(check.at("name"));
    return found;
  };
  scratch.file("agent-nobody.toml", "node = \"n0\"\n");
  const auto node = names({});
  CHECK(node.contains("trimtab-agent"));
  CHECK(node.contains("PyTorch"));
  for (const char* name : {"trimtab-coordinator", "state directory", "socket directory"}) CHECK(!node.contains(name));
  CHECK(names({"--state", scratch.path("up")}).contains("state directory"));
  std::filesystem::remove(scratch.path("agent-nobody.toml"));
  scratch.file("coordinator.toml", "listen = \"127.0.0.1:1\"\n");
  const auto coordinator = names({});
  CHECK(coordinator.contains("trimtab-coordinator"));
  CHECK(coordinator.contains("coordinator"));
  for (const char* name : {"trimtab-agent", "PyTorch", "port 7420", "state directory"}) {
    CHECK(!coordinator.contains(name));
  }
}

TEST_CASE("doctor asks the agent at the port of its agent.toml, and says where it does not answer") {
  const Scratch scratch;
  scratch.file("agent.toml", "metrics_port = 1\n");
  const Outcome outcome = ::trimtab_program({"doctor", "--json", "--configuration", scratch.path("")});
  const json agent = check_named(json::parse(outcome.out), "agent");
  CHECK(agent.at("health") == "warn");
  CHECK(agent.at("found").get<std::string>().find("127.0.0.1:1") != std::string::npos);
}

TEST_CASE("doctor says that a machine without GPUs has none and what is seen there") {
  const Variable nvml("TRIMTAB_NVML", "libnvidia-ml-that-is-not-there.so.1");
  if (std::filesystem::exists("/dev/nvidia0")) return;
  const json report = doctor();
  CHECK(report.at("detail") == "ranges");
  CHECK(check_named(report, "GPUs").at("found").get<std::string>().starts_with("none: "));
  CHECK(check_named(report, "sealed memory").at("health") == "ok");
}

TEST_CASE("doctor names what restricts profiling on a GPU node, level and remedy") {
  const Scratch scratch;
  const std::string script = scratch.file("nvml",
                                          "system nvmlSystemGetDriverVersion 550.54.15\n"
                                          "system nvmlSystemGetCudaDriverVersion_v2 12040\n"
                                          "system nvmlDeviceGetCount_v2 1\n"
                                          "0 nvmlDeviceGetName NVIDIA H100 80GB HBM3\n"
                                          "0 nvmlDeviceGetVirtualizationMode 2\n");
  const Variable nvml("TRIMTAB_NVML", FAKE_NVML);
  const Variable fake("TRIMTAB_FAKE_NVML", script);
  const Variable foreign("CUDA_INJECTION64_PATH", "/opt/nsight/libToolsInjection64.so");
  const json report = doctor();
  CHECK(check_named(report, "GPUs").at("found") == "1 x NVIDIA H100 80GB HBM3, driver 550.54.15, CUDA 12.4");
  const json vgpu = check_named(report, "vGPU");
  CHECK(vgpu.at("health") == "warn");
  CHECK(vgpu.at("remains") == "collectives");
  CHECK(vgpu.at("remedy").get<std::string>().find("enable_profiling=1") != std::string::npos);
  CHECK(check_named(report, "other profilers").at("health") == "warn");
  CHECK(report.at("detail") == "collectives");
  const Outcome text = ::trimtab_program({"doctor"});
  CHECK(text.out.find("detail that remains on this node: collectives") != std::string::npos);
}

TEST_CASE("doctor takes a job whose train is a shell script, and refuses one whose script is not there") {
  const Scratch scratch;
  scratch.file("train.sh", "exec some-python train.py\n");
  const auto check_of = [&](const std::string& train, const std::string& name) {
    const std::string job =
        scratch.file("job.toml",
                     "schema = \"trimtab.job/1\"\nname = \"j\"\n[commands]\ndescribe = [\"d\"]\n"
                     "benchmark = [\"b\"]\ntrain = " +
                         train + "\n[environment]\nPATH = \"" + scratch.path("bin") + ":/usr/bin:/bin\"\n");
    return check_named(json::parse(::trimtab_program({"doctor", "--json", "--metrics-port", "0", "--job", job}).out),
                       name);
  };
  std::filesystem::create_directories(scratch.path("bin"));
  // An interpreter that has no PyTorch, as the guess would find it.
  scratch.file("bin/python3", "#!/bin/sh\nexit 1\n");
  std::filesystem::permissions(scratch.path("bin/python3"), std::filesystem::perms::owner_all);
  CHECK(check_of("[\"bash\", \"train.sh\"]", "train").at("health") == "ok");
  const json guessed = check_of("[\"bash\", \"train.sh\"]", "PyTorch");
  CHECK(guessed.at("health") == "warn");
  CHECK(guessed.at("found").get<std::string>().find("name no interpreter") != std::string::npos);
  CHECK(check_of("[\"python3\", \"train.sh\"]", "PyTorch").at("health") == "fail");
  for (const std::string train : {"[\"env\", \"A=1\", \"python3\", \"-u\", \"missing.py\"]", "[\"./missing.sh\"]",
                                  "[\"bash\", \"missing.sh\"]", "[\"no-such-program\"]", "[\"./train.sh\"]"}) {
    INFO(train);
    CHECK(check_of(train, "train").at("health") == "fail");
  }
  const json too_long = check_of("[\"bash\", \"train.sh\", \"" + std::string(131'072, 'x') + "\"]", "train");
  CHECK(too_long.at("health") == "fail");
  CHECK_THAT(too_long.at("found").get<std::string>(), Catch::Contains("argument 2 has 131072 bytes"));
}
