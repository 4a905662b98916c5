#include "base/regular_file.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace trimtab;
namespace fs = std::filesystem;

TEST_CASE("a file is read whole where it is a regular one of no more than its bound", "[regular_file]") {
  std::string directory = (fs::temp_directory_path() / "trimtab-regular-XXXXXX").string();
  REQUIRE(::mkdtemp(directory.data()) != nullptr);
  const std::string file = directory + "/file";
  const std::string link = directory + "/link";
  const std::string pipe = directory + "/pipe";
  const std::string text(100'000, 'x');
  std::ofstream(file) << text;
  fs::create_symlink(file, link);
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(read_regular_file(file, text.size()).value() == text);
  CHECK(read_regular_file(link, text.size()).value() == text);
  CHECK(read_regular_file(link, text.size(), false).error().kind == ErrorKind::kUnavailable);
  CHECK(read_regular_file(directory + "/none", 1).error().kind == ErrorKind::kUnavailable);
  for (const std::string& other : {pipe, directory, std::string("/dev/zero")}) {
    CHECK_THAT(read_regular_file(other, text.size()).error().message,
               Catch::EndsWith("no file that can be read whole"));
  }
  const auto larger = read_regular_file(file, text.size() - 1);
  REQUIRE_FALSE(larger.ok());
  CHECK(larger.error().kind == ErrorKind::kBadInput);
  CHECK_THAT(larger.error().message, Catch::Contains("it has more than"));
  fs::remove_all(directory);
}
