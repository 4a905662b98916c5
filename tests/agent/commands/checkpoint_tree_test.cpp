#include "commands/checkpoint_copy.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "../temporary_directory.hpp"
#include "commands/scratch.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace fs = std::filesystem;

namespace {

void put(const std::string& path, const std::string& text) {
  REQUIRE(write_file(path, text).ok());
}

}  // namespace

TEST_CASE("nothing that is written to a checkpoint's copy reaches the job's own, whatever its links") {
  const TemporaryDirectory at;
  fs::create_directories(at / "shared/deep");
  fs::create_directories(at / "saved/step-1/shard");
  fs::create_directories(at / "saved/away");
  put(at / "shared/weights", "shared");
  put(at / "shared/deep/more", "shared");
  put(at / "saved/step-1/weights", "job's");
  fs::create_symlink("step-1", at / "saved/latest");
  fs::create_symlink(at / "saved/step-1/weights", at / "saved/absolute");
  fs::create_symlink("../../step-1", at / "saved/step-1/shard/up");
  fs::create_symlink(at / "shared/weights", at / "saved/outside-file");
  fs::create_symlink("../../shared", at / "saved/away/outside");
  fs::create_symlink("../weights", at / "shared/deep/weights");
  fs::create_symlink(at / "nowhere", at / "saved/dangling");

  CopyWatch watch;
  const auto copied = copy_tree(at / "saved", at / "copy", watch);
  INFO((copied.ok() ? "" : copied.error().message));
  REQUIRE(copied.ok());
  CHECK(watch.bytes == 29);  // "job's", "shared" four times: beside itself and beneath "away", where a link led to it
  const char* const weights[] = {"step-1/weights", "latest/weights", "absolute", "step-1/shard/up/weights"};
  for (const char* one : weights) CHECK(read_file(at / "copy/" + one).value() == "job's");
  const char* const shared[] = {"outside-file", "away/outside/weights", "away/outside/deep/more",
                                "away/outside/deep/weights"};
  for (const char* one : shared) CHECK(read_file(at / "copy/" + one).value() == "shared");
  CHECK_FALSE(fs::exists(fs::symlink_status(at / "copy/dangling")));
  CHECK(fs::is_symlink(at / "copy/latest"));  // not twice the room
  const std::string root = fs::canonical(at / "copy").string() + "/";
  for (const auto& entry : fs::recursive_directory_iterator(at / "copy")) {
    INFO(entry.path());
    CHECK(fs::canonical(entry.path()).string().starts_with(root));
  }
}

TEST_CASE("holes of a checkpoint's files are holes of its copy, and take no room") {
  const TemporaryDirectory at;
  constexpr std::uintmax_t kSize = std::uintmax_t{4} << 20;
  fs::create_directories(at / "saved");
  put(at / "saved/begins", "begin");
  fs::resize_file(at / "saved/begins", kSize);
  put(at / "saved/hollow", "");
  fs::resize_file(at / "saved/hollow", kSize);
  put(at / "saved/ends", "");
  fs::resize_file(at / "saved/ends", kSize);
  std::ofstream(at / "saved/ends", std::ios::app) << "end";
  CopyWatch watch;
  REQUIRE(copy_tree(at / "saved", at / "copy", watch).ok());
  CHECK(watch.bytes == 3 * kSize + 3);
  for (const char* one : {"begins", "hollow", "ends"}) {
    CAPTURE(one);
    CHECK(read_file(at / (std::string("copy/") + one)).value() ==
          read_file(at / (std::string("saved/") + one)).value());
    struct stat copied {};
    REQUIRE(::stat((at / (std::string("copy/") + one)).c_str(), &copied) == 0);
    CHECK(copied.st_blocks * 512 <= 1 << 20);
  }
}

TEST_CASE("a checkpoint that cannot be copied says what is in the way") {
  const TemporaryDirectory at;
  CopyWatch watch;
  fs::create_directories(at / "saved/step-1");
  put(at / "saved/step-1/weights", "job's");
  SECTION("a link that leads back") {
    fs::create_symlink("../..", at / "saved/step-1/around");
    const auto copied = copy_tree(at / "saved", at / "copy", watch);
    REQUIRE_FALSE(copied.ok());
    CHECK_THAT(copied.error().message, Catch::Contains("leads back to it"));
  }
  SECTION("what is no file") {
    REQUIRE(::mkfifo((at / "saved/pipe").c_str(), 0600) == 0);
    const auto copied = copy_tree(at / "saved", at / "copy", watch);
    REQUIRE_FALSE(copied.ok());
    CHECK_THAT(copied.error().message, Catch::Contains("pipe: it is neither a file nor a directory"));
  }
  SECTION("its owner") {
    watch.cancelled = true;
    const auto copied = copy_tree(at / "saved", at / "copy", watch);
    REQUIRE_FALSE(copied.ok());
    CHECK_THAT(copied.error().message, Catch::Contains("was cancelled"));
  }
}
