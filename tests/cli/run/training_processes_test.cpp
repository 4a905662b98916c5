#include "run/training_processes.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

using namespace trimtab::cli;
namespace fs = std::filesystem;

namespace {

constexpr const char* kTorch = "7f00-7f01 r-xp 0 00:00 1 /usr/lib/libtorch_cpu.so.1.13\n";

class Proc {
 public:
  Proc() { REQUIRE(mkdtemp(path_.data()) != nullptr); }
  ~Proc() { fs::remove_all(path_); }
  Proc(const Proc&) = delete;
  Proc& operator=(const Proc&) = delete;
  void add(const std::string& pid, const std::string& maps, const std::string& environ) const {
    fs::create_directory(path_ + "/" + pid);
    std::ofstream(path_ + "/" + pid + "/maps") << maps;
    std::ofstream(path_ + "/" + pid + "/environ") << environ;
    std::ofstream(path_ + "/" + pid + "/cmdline") << std::string("python3\0train.py\0", 17);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/trimtab-test-XXXXXX";
};

}  // namespace

TEST_CASE("a process that has PyTorch loaded and lacks the library is listed with its rank") {
  const Proc proc;
  proc.add("20", kTorch, std::string("RANK=1\0WORLD_SIZE=2\0", 20));
  proc.add("10", "7f00-7f01 r-xp 0 00:00 1 /usr/lib/libnccl.so.2\n", "");
  proc.add("30", std::string(kTorch) + "7f02-7f03 r-xp 0 00:00 2 /opt/lib/libtrimtab-inject.so\n", "");
  proc.add("40", "7f00-7f01 r-xp 0 00:00 1 /usr/lib/libc.so.6\n", "");
  proc.add("self", kTorch, "");
  const auto found = unwatched_processes(geteuid(), proc.path());
  REQUIRE(found.size() == 2);
  CHECK(found[0].pid == 10);
  CHECK(found[0].rank.launcher.empty());
  CHECK(found[1].pid == 20);
  CHECK(found[1].command == std::vector<std::string>{"python3", "train.py"});
  CHECK(found[1].rank.rank == 1);
  CHECK(found[1].rank.world_size == 2);
  CHECK(unwatched_processes(geteuid() + 1, proc.path()).empty());
}
