#include "run/shared_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "files.hpp"
#include "net/certificates.hpp"

using namespace trimtab;
using namespace trimtab::cli;

namespace {

class Place {
 public:
  Place() { REQUIRE(mkdtemp(path_.data()) != nullptr); }
  ~Place() { std::filesystem::remove_all(path_); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  [[nodiscard]] std::string folder() const { return path_ + "/nodes"; }

 private:
  std::string path_ = "/tmp/trimtab-test-XXXXXX";
};

bool is_private(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && (info.st_mode & 077U) == 0;
}

}  // namespace

TEST_CASE("a folder of keys is made for its owner alone, and another is refused") {
  const Place place;
  REQUIRE(SharedFolder::open(place.folder()).ok());
  CHECK(is_private(place.folder()));
  chmod(place.folder().c_str(), 0750);
  const auto refused = SharedFolder::open(place.folder());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("chmod 700") != std::string::npos);
  CHECK_FALSE(SharedFolder::open("/proc/nodes").ok());
}

TEST_CASE("the first node that asks starts the coordinator, whoever asks again") {
  const Place place;
  const auto folder = SharedFolder::open(place.folder());
  REQUIRE(folder.ok());
  CHECK(folder->claimed_by().empty());
  CHECK(folder->claim("n0").value());
  CHECK_FALSE(folder->claim("n1").value());
  CHECK(folder->claim("n0").value());
  CHECK(folder->claimed_by() == "n0");
  folder->leave();
  CHECK(folder->claim("n1").value());
}

TEST_CASE("the first node makes what all of them show one another, for nobody else to read") {
  const Place place;
  const SystemClock clock;
  const auto folder = SharedFolder::open(place.folder());
  REQUIRE(folder.ok());
  REQUIRE(folder->publish({{"10.0.0.1"}, 4711, "n9", "old"}).ok());
  const auto up = folder->found("n0", clock);
  REQUIRE(up.ok());
  CHECK_FALSE(folder->told());
  for (const auto& entry : std::filesystem::directory_iterator(place.folder())) {
    INFO(entry.path());
    CHECK(is_private(entry.path()));
  }
  const auto node = net::describe_certificate(read_file(up->agent_tls.certificate).value(), "node");
  REQUIRE(node.ok());
  CHECK(node->owner.name == "n0");
  CHECK(node->owner.kind == net::CertificateKind::kNode);
  const auto server = net::describe_certificate(read_file(up->coordinator_tls.certificate).value(), "server");
  REQUIRE(server.ok());
  CHECK(std::find(server->hosts.begin(), server->hosts.end(), "127.0.0.1") != server->hosts.end());
}

TEST_CASE("what the first node tells is read by the others, and where nobody answers that is said") {
  const Place place;
  const SystemClock clock;
  const auto folder = SharedFolder::open(place.folder());
  REQUIRE(folder.ok());
  REQUIRE(folder->found("n0", clock).ok());
  REQUIRE(folder->publish({{"127.0.0.1"}, 1, "n0", "train"}).ok());
  const auto told = folder->told();
  REQUIRE(told);
  CHECK(told->port == 1);
  CHECK(told->node == "n0");
  CHECK(told->job == "train");
  const auto joined = folder->join(*told, "n1", clock);
  REQUIRE_FALSE(joined.ok());
  CHECK(joined.error().message.find("port 1 of 127.0.0.1") != std::string::npos);
  for (const char* text : {"", "{", "[]", R"({"hosts":["a"],"port":"x","node":"n","job":"j"})"}) {
    INFO(text);
    CHECK_FALSE(parse_shared_coordinator(text, "coordinator.json").ok());
  }
}
