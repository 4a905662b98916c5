// What a file of the agent is when the power goes: this program sees each sync and each new name (linked with --wrap).

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "commands/scratch.hpp"
#include "temporary_directory.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

namespace fs = std::filesystem;

struct Disk {
  std::vector<std::string> done;
  std::string fails;  // the sync of this path
};
Disk* disk = nullptr;  // nothing: nobody looks

std::string path_of(int descriptor) {
  return fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor)).string();
}

struct Fixture {
  Fixture() { ::disk = &seen; }
  ~Fixture() { ::disk = nullptr; }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  TemporaryDirectory directory;
  Disk seen;
  const std::string path = directory / "job.json";
  const std::string beside = path + ".new-" + std::to_string(::getpid());
};

}  // namespace

extern "C" {
int __real_fsync(int descriptor);
int __real_rename(const char* from, const char* to);

int __wrap_fsync(int descriptor) {
  if (disk == nullptr) return __real_fsync(descriptor);
  const std::string path = path_of(descriptor);
  if (path == disk->fails) {
    errno = EIO;
    return -1;
  }
  disk->done.push_back("sync " + path + (fs::is_directory(path) ? "" : ", " + std::to_string(fs::file_size(path))));
  return 0;
}

int __wrap_rename(const char* from, const char* to) {
  if (disk != nullptr) disk->done.push_back(std::string("rename to ") + to);
  return __real_rename(from, to);
}
}

TEST_CASE("a file's bytes are on the disk before its name is, and its name before the write returns") {
  Fixture fixture;
  REQUIRE(write_file(fixture.path, "grace").ok());
  CHECK(fixture.seen.done == std::vector<std::string>{"sync " + fixture.beside + ", 5", "rename to " + fixture.path,
                                                      "sync " + fixture.directory.path()});
  CHECK(read_file(fixture.path).value() == "grace");
}

TEST_CASE("a file whose bytes do not reach the disk changes nothing and says why") {
  Fixture fixture;
  REQUIRE(write_file(fixture.path, "before").ok());
  fixture.seen.fails = fixture.beside;
  const Status refused = write_file(fixture.path, "after");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::kUnavailable);
  CHECK(refused.error().message == "cannot write " + fixture.path + ": Input/output error");
  CHECK(read_file(fixture.path).value() == "before");
  CHECK_FALSE(fs::exists(fixture.beside));
}

TEST_CASE("a name that does not reach the disk is a failure, too") {
  Fixture fixture;
  fixture.seen.fails = fixture.directory.path();
  CHECK_FALSE(write_file(fixture.path, "grace").ok());
}
