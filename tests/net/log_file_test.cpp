#include "net/daemon.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

using namespace trimtab;
using net::LogFile;

namespace {

namespace fs = std::filesystem;

// A directory, and a descriptor that stands for a daemon's standard error.
struct Place {
  Place() {
    char path[] = "/tmp/trimtab-log-XXXXXX";
    REQUIRE(::mkdtemp(path) != nullptr);
    directory = path;
    descriptor = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    REQUIRE(descriptor >= 0);
  }
  ~Place() {
    ::close(descriptor);
    fs::remove_all(directory);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  void say(const std::string& text) const {
    REQUIRE(::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  [[nodiscard]] std::string text(const std::string& name = "log") const {
    std::ifstream file(directory + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] std::string path() const { return directory + "/log"; }

  std::string directory;
  int descriptor = -1;
};

}  // namespace

TEST_CASE("a log file keeps what stands in it, and itself and one before it within the limit") {
  Place place;
  std::ofstream(place.path()) << "before\n";
  const auto log = LogFile::open(place.path(), 100, place.descriptor);
  REQUIRE(log.ok());
  place.say("first\n");
  log->look();
  CHECK(place.text() == "before\nfirst\n");
  for (int i = 0; i < 50; ++i) {
    place.say(std::string(39, 'x') + "\n");
    log->look();
    CHECK(place.text().size() < 100);
  }
  CHECK(place.text("log.1").size() < 100 + 40);
  CHECK(std::distance(fs::directory_iterator(place.directory), fs::directory_iterator()) == 2);
  place.say("last\n");
  CHECK(place.text().find("last") != std::string::npos);
}

TEST_CASE("a log file that is too large when the daemon starts begins anew") {
  Place place;
  std::ofstream(place.path()) << std::string(500, 'o');
  REQUIRE(LogFile::open(place.path(), 100, place.descriptor).ok());
  place.say("new\n");
  CHECK(place.text() == "new\n");
  CHECK(place.text("log.1").size() == 500);
}

TEST_CASE("a log file that cannot be moved aside is emptied") {
  Place place;
  const auto log = LogFile::open(place.path(), 100, place.descriptor);
  REQUIRE(log.ok());
  fs::create_directories(place.directory + "/log.1/in-the-way");
  place.say(std::string(150, 'x'));
  log->look();
  CHECK(place.text().empty());
  place.say("goes on\n");
  CHECK(place.text() == "goes on\n");
}

TEST_CASE("a log file that cannot be written is an error that names it") {
  const auto log = LogFile::open("/nowhere/log", 100, 2);
  REQUIRE_FALSE(log.ok());
  CHECK(log.error().message.find("/nowhere/log") != std::string::npos);
}
