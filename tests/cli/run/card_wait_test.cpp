#include <catch2/catch.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "files.hpp"
#include "run/card_files.hpp"

using namespace trimtab;
using namespace trimtab::cli;
using std::chrono::milliseconds;

namespace {

CardLook of_steps(std::int64_t steps) {
  CardLook look;
  look.card = api::Card{};
  look.card->steps = steps;
  return look;
}

}  // namespace

TEST_CASE("a card is taken once no more steps come in") {
  CardWait wait(Nanoseconds(0));
  CHECK_FALSE(wait.take(of_steps(10), milliseconds(0)));
  CHECK_FALSE(wait.take(of_steps(12), milliseconds(700)));
  CHECK_FALSE(wait.take(of_steps(12), milliseconds(1400)));
  CHECK(wait.take(of_steps(12), milliseconds(1500)));
  CHECK(wait.last().card->steps == 12);
}

TEST_CASE("a card is waited for at most five seconds, and not so long where no rank has told anything") {
  CardWait busy(Nanoseconds(0));
  for (int i = 1; i < 10; ++i) CHECK_FALSE(busy.take(of_steps(i), milliseconds(500 * i)));
  CHECK(busy.take(of_steps(99), milliseconds(5000)));
  CardWait silent(Nanoseconds(0));
  CHECK_FALSE(silent.take({}, milliseconds(1000)));
  CHECK(silent.take({}, milliseconds(2000)));
}

TEST_CASE("without a card it is said what was looked for") {
  CHECK(no_card_text(of_steps(0), "train").find("no training step of train was seen") != std::string::npos);
  CardLook unknown;
  unknown.problem = "the coordinator refused: no such job";
  const std::string text = no_card_text(unknown, "train");
  CHECK(text.find("no such job") != std::string::npos);
  CHECK(text.find("torch's optimizers") != std::string::npos);
}

TEST_CASE("a directory for the card is made, and one where none can be is an error") {
  std::string path = "/tmp/trimtab-test-XXXXXX";
  REQUIRE(mkdtemp(path.data()) != nullptr);
  const std::string inner = path + "/trimtab-out/train";
  REQUIRE(check_card_directory(inner).ok());
  remove_empty_directory(inner);
  CHECK(access((path + "/trimtab-out").c_str(), F_OK) != 0);
  CHECK_FALSE(check_card_directory("/proc/trimtab-out").ok());
  rmdir(path.c_str());
}

TEST_CASE("a card goes into no folder of somebody else's and through no link of theirs") {
  namespace fs = std::filesystem;
  std::string path = "/tmp/trimtab-test-XXXXXX";
  REQUIRE(mkdtemp(path.data()) != nullptr);
  const fs::path root(path);
  fs::create_directories(root / "named/train");
  fs::create_directory_symlink(root / "named", root / "link");
  const uid_t own = geteuid();
  CHECK(check_card_directory(path + "/named/train", own).ok());
  CHECK(check_card_directory(path + "/link/train/", own).ok());

  // Seen by another user who is not root, what lies there is somebody else's; root's is not.
  const uid_t another = own + 7;
  const bool as_root = own == 0;
  if (as_root) fs::create_directories(root / "theirs");
  if (as_root) REQUIRE(chown((path + "/theirs").c_str(), 7, 7) == 0);
  const std::string folder = as_root ? path + "/theirs" : path + "/named/train";
  const Status refused = check_card_directory(folder, another + 1);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.starts_with(folder + " belongs to "));
  if (as_root) REQUIRE(lchown((path + "/link").c_str(), 7, 7) == 0);
  const Status linked = check_card_directory(path + "/link/new", another + 1);
  REQUIRE_FALSE(linked.ok());
  CHECK(linked.error().message.starts_with(path + "/link is a link that belongs to "));
  CHECK_FALSE(fs::exists(root / "named/new"));
  fs::remove_all(root);
}

TEST_CASE("a card's files take the place of links and leave what those lead to") {
  namespace fs = std::filesystem;
  std::string path = "/tmp/trimtab-test-XXXXXX";
  REQUIRE(mkdtemp(path.data()) != nullptr);
  const fs::path root(path);
  std::ofstream(root / "precious") << "precious";
  fs::create_symlink(root / "precious", root / "card.json");
  fs::create_symlink(root / "precious", root / "card.txt");
  CardLook look = of_steps(3);
  look.json = "{}";
  REQUIRE(write_card(path, look, "the card\n").ok());
  CHECK(read_file(path + "/precious").value() == "precious");
  CHECK(read_file(path + "/card.json").value() == "{}\n");
  CHECK(read_file(path + "/card.txt").value() == "the card\n");
  CHECK_FALSE(fs::is_symlink(root / "card.txt"));
  fs::remove_all(root);
}
