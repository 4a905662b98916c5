#include "commands/tree_walk.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "../temporary_directory.hpp"

using namespace trimtab::agent;

namespace {

namespace fs = std::filesystem;

void file(const std::string& path) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << "x";
}

}  // namespace

TEST_CASE("a walk sees everything once, a few at a time, and follows no link") {
  TemporaryDirectory directory;
  const std::string root = directory / "root";
  for (int i = 0; i < 20; ++i) file(root + "/" + std::to_string(i % 4) + "/" + std::to_string(i));
  file(directory / "elsewhere/precious");
  fs::create_directory_symlink(directory / "elsewhere", root + "/link");
  std::multiset<std::string> seen;
  TreeWalk walk(root, [&](const std::string& path, const struct stat&) {
    seen.insert(path);
    return true;
  });
  std::size_t before = 0;
  for (bool over = false; !over; before = seen.size()) {
    over = walk.step(3);
    CHECK(seen.size() <= before + 3 + (before == 0 ? 1 : 0));
  }
  CHECK(seen.size() == 1 + 4 + 20 + 1);
  for (const std::string& path : seen) CHECK(seen.count(path) == 1);
}

TEST_CASE("a walk goes on where a directory goes meanwhile, and there may be none at all") {
  TemporaryDirectory directory;
  for (const char* name : {"root/a/1", "root/b/1"}) file(directory / name);
  int seen = 0;
  TreeWalk walk(directory / "root", [&](const std::string&, const struct stat&) { return ++seen > 0; });
  CHECK_FALSE(walk.step(3));
  fs::remove_all(directory / "root");
  CHECK(walk.step(100));
  CHECK(seen == 3);
  TreeWalk none(directory / "root", [&](const std::string&, const struct stat&) { return ++seen > 0; });
  CHECK(none.step(100));
  CHECK(seen == 3);
}

TEST_CASE("a removal takes a few at a time, down to nothing, and leaves what links point at") {
  TemporaryDirectory directory;
  const std::string root = directory / "root";
  for (int i = 0; i < 20; ++i) file(root + "/" + std::to_string(i % 4) + "/deep/" + std::to_string(i));
  file(directory / "elsewhere/precious");
  fs::create_directory_symlink(directory / "elsewhere", root + "/link");
  const auto left = [&] {
    return fs::exists(root) ? std::distance(fs::recursive_directory_iterator(root), {}) + 1 : 0;
  };
  TreeRemoval removal(root);
  auto before = left();
  for (bool over = false; !over; before = left()) {
    over = removal.step(3);
    CHECK(before - left() <= 3);
  }
  CHECK(before == 0);
  CHECK(removal.failure().empty());
  CHECK(fs::exists(directory / "elsewhere/precious"));
}
