#include "run/watch_environment.hpp"

#include <catch2/catch.hpp>

#include "run/attach_text.hpp"

using namespace trimtab::cli;

namespace {

const WatchPlaces kPlaces{"/s/agent.sock", "train", "/l/libtrimtab-inject.so", "/c"};

}  // namespace

TEST_CASE("a watched process is told its agent, its job and what to load") {
  const VariableChanges changes = watch_changes({}, kPlaces);
  CHECK(changes.at("TRIMTAB_SOCKET") == "/s/agent.sock");
  CHECK(changes.at("TRIMTAB_JOB") == "train");
  CHECK(changes.at("TRIMTAB_WATCH") == "1");
  for (const char* name :
       {"TRIMTAB_LIBRARY", "NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN"}) {
    INFO(name);
    CHECK(changes.at(name) == kPlaces.library);
  }
  CHECK(changes.at("PYTHONPATH") == "/c/watch_hook:/c");
  CHECK_FALSE(changes.contains("TRIMTAB_NCCL_PROFILER_NEXT"));
  CHECK_FALSE(changes.contains("TRIMTAB_RANK"));
}

TEST_CASE("what the user brings keeps its place") {
  const VariableChanges changes = watch_changes({{"PYTHONPATH", "/mine"},
                                                 {"NVTX_INJECTION64_PATH", "/nsys.so"},
                                                 {"CUDA_INJECTION64_PATH", "/nsys.so"},
                                                 {"NCCL_PROFILER_PLUGIN", "/other.so"},
                                                 {"TRIMTAB_NCCL_DETAIL", "all"}},
                                                kPlaces);
  CHECK(changes.at("PYTHONPATH") == "/c/watch_hook:/c:/mine");
  CHECK_FALSE(changes.contains("NVTX_INJECTION64_PATH"));
  CHECK_FALSE(changes.contains("CUDA_INJECTION64_PATH"));
  CHECK_FALSE(changes.contains("TRIMTAB_NCCL_DETAIL"));
  CHECK(changes.at("NCCL_PROFILER_PLUGIN") == kPlaces.library);
  CHECK(changes.at("TRIMTAB_NCCL_PROFILER_NEXT") == "/other.so");
}

TEST_CASE("an environment that was printed once is not lengthened by printing it again") {
  const VariableChanges changes =
      watch_changes({{"PYTHONPATH", "/c/watch_hook:/c:/mine"}, {"NCCL_PROFILER_PLUGIN", kPlaces.library}}, kPlaces);
  CHECK_FALSE(changes.contains("PYTHONPATH"));
  CHECK_FALSE(changes.contains("TRIMTAB_NCCL_PROFILER_NEXT"));
}

TEST_CASE("an environment is printed so that it can be pasted") {
  const WatchPlaces places{"/run dir/agent.sock", "it's", "/l/libtrimtab-inject.so", "/l/python"};
  const VariableChanges changes{{"TRIMTAB_JOB", places.job}, {"TRIMTAB_SOCKET", places.socket}, {"GONE", std::nullopt}};
  CHECK(shell_exports(changes) == "export TRIMTAB_JOB='it'\\''s'\nexport TRIMTAB_SOCKET='/run dir/agent.sock'\n");
  CHECK(variable_lines(changes) == "TRIMTAB_JOB=it's\nTRIMTAB_SOCKET=/run dir/agent.sock\n");
  CHECK(variables_json(changes) ==
        "{\n  \"TRIMTAB_JOB\": \"it's\",\n  \"TRIMTAB_SOCKET\": \"/run dir/agent.sock\"\n}\n");
  CHECK(docker_options(changes, places) ==
        "-v '/run dir:/run dir' -v '/l:/l:ro' -e 'TRIMTAB_JOB=it'\\''s' -e 'TRIMTAB_SOCKET=/run dir/agent.sock'\n");
  CHECK(kubernetes_parts(changes, places) ==
        "# of the container\nenv:\n- {name: TRIMTAB_JOB, value: \"it's\"}\n"
        "- {name: TRIMTAB_SOCKET, value: \"/run dir/agent.sock\"}\n"
        "volumeMounts:\n- {name: trimtab-0, mountPath: \"/run dir\"}\n"
        "- {name: trimtab-1, mountPath: \"/l\", readOnly: true}\n"
        "# of the pod\nvolumes:\n- {name: trimtab-0, hostPath: {path: \"/run dir\", type: Directory}}\n"
        "- {name: trimtab-1, hostPath: {path: \"/l\", type: Directory}}\n");
}
